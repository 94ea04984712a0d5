// Sign in, and the first run: the setup code creates the first administrator.

import { session, setUp, signIn } from './session.js';
import { Field, Form, Title, html, useState } from './ui.js';

/** Password is a field for a password, which can be shown. */
function Password({ label = 'Password', hint, complete }) {
	const [shown, setShown] = useState(false);
	return html`<${Field} label=${label} hint=${hint} name="password" type=${shown ? 'text' : 'password'} required
			autocomplete=${complete} autocapitalize="none" spellcheck="false" />
		<label class="check"><input type="checkbox" checked=${shown} onChange=${(event) => setShown(event.target.checked)} /> Show the password</label>`;
}

function Email() {
	return html`<${Field} label="E-mail" name="email" type="email" required autocomplete="username" autocapitalize="none" spellcheck="false" />`;
}

function Frame({ title, children }) {
	return html`<main class="narrow card">
		<p class="brand"><img src="/console/icon.svg" alt="" width="28" height="28" />${session.gateway || 'Gatehouse'}</p>
		<${Title}>${title}<//>
		${children}
	</main>`;
}

function Setup() {
	return html`<${Frame} title="Set up this gateway">
		<p>
			There is no account yet. The <strong>setup code</strong> is on the screen of the board and in its log:${' '}
			<code>journalctl -u gatehouse</code>
		</p>
		<${Form} submit="Create the administrator" busyText="Creating…" onSubmit=${({ code, email, password }) => setUp(code, email, password)}>
			<${Field} label="Setup code" name="code" required autocomplete="off" autocapitalize="characters" spellcheck="false" />
			<${Email} />
			<${Password} complete="new-password" hint="8 characters or more. You will sign in with it." />
		<//>
	<//>`;
}

export default function SignIn() {
	if (session.state === 'setup') return html`<${Setup} />`;
	return html`<${Frame} title="Sign in">
		${session.notice && html`<p class="notice">${session.notice}</p>`}
		<${Form} submit="Sign in" busyText="Signing in…" onSubmit=${({ email, password }) => signIn(email, password)}>
			<${Email} />
			<${Password} complete="current-password" />
		<//>
		<details class="help">
			<summary>I cannot sign in</summary>
			<p>An administrator sets a new password under People, or on the gateway: <code>gatehouse account password EMAIL</code></p>
			<p>Does the browser warn of the certificate? <a href="/trust">Trust this gateway</a> once.</p>
		</details>
	<//>`;
}
