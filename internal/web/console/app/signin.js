// Sign in, and the first run: the setup code creates the first administrator.

import { session, setUp, signIn } from './session.js';
import { Brand, Check, Field, Form, Title, html, useState } from './ui.js';

const typed = { required: true, autocapitalize: 'none', spellcheck: 'false' };

/** Account asks for an e-mail address and a password, which can be shown. */
function Account({ complete, hint }) {
	const [shown, setShown] = useState(false);
	return html`<${Field} label="E-mail" name="email" type="email" autocomplete="username" ...${typed} />
		<${Field} label="Password" hint=${hint} name="password" type=${shown ? 'text' : 'password'} autocomplete=${complete} ...${typed} />
		<${Check} checked=${shown} onChange=${({ target }) => setShown(target.checked)}>Show the password<//>`;
}

function Setup() {
	return html`<${Title}>Set up this gateway<//>
		<p>There is no account yet. The <strong>setup code</strong> is on the screen of the board and in its log: <code>journalctl -u gatehouse</code></p>
		<${Form} submit="Create the administrator" onSubmit=${({ code, email, password }) => setUp(code, email, password)}>
			<${Field} label="Setup code" name="code" autocomplete="off" ...${typed} autocapitalize="characters" />
			<${Account} complete="new-password" hint="8 characters or more. You will sign in with it." />
		<//>`;
}

function Known() {
	return html`<${Title}>Sign in<//>
		${session.notice && html`<p class="notice">${session.notice}</p>`}
		<${Form} submit="Sign in" onSubmit=${({ email, password }) => signIn(email, password)}><${Account} complete="current-password" /><//>
		<details>
			<summary>I cannot sign in</summary>
			<p>An administrator sets a new password under People, or on the gateway: <code>gatehouse account password EMAIL</code></p>
			<p>Does the browser warn of the certificate? <a href="/trust">Trust this gateway</a> once.</p>
		</details>`;
}

export default function SignIn() {
	return html`<main class="narrow card">
		<p><${Brand}>${session.gateway || 'Gatehouse'}<//></p>
		${session.state === 'setup' ? html`<${Setup} />` : html`<${Known} />`}
	</main>`;
}
