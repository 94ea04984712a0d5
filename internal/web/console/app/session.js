// Who is signed in to this page, and the page that signs in. The cookie of the session is
// out of its reach; the gateway says whose it is.

import { get, post, remove } from './api.js';
import { follow, live, publish, subscribe, unfollow } from './live.js';
import { Brand, Check, Field, Form, Title, html, useState } from './ui.js';

// state is "asking", "in", "out" or "setup" (there is no account yet); account has
// accountId, email and admin; notice says why the page wants a sign-in.
export const session = { state: 'asking', account: null, gateway: '', notice: '' };

function set(change) {
	Object.assign(session, change);
	publish('session');
}

function enter(account) {
	follow(account.admin ? '/admin/v1/stations/watch' : '/local/v1/watch');
	set({ state: 'in', account, notice: '' });
}

async function leave(notice) {
	unfollow();
	const setup = await get('/local/v1/setup').catch(() => ({ open: false, name: '' }));
	set({ state: setup.open ? 'setup' : 'out', account: null, gateway: setup.name, notice });
}

// check throws when the gateway does not answer.
export async function check() {
	try {
		enter(await get('/local/v1/session', { signsIn: true }));
	} catch (error) {
		if (error.status !== 401) throw error;
		await leave('');
	}
}

async function signIn({ email, password }) {
	enter(await post('/local/v1/session', { email, password }, { signsIn: true }));
}

async function setUp({ code, email, password }) {
	await post('/local/v1/setup', { code, email, password }, { signsIn: true });
	await signIn({ email, password }).catch(() => leave('The administrator is created. Sign in.'));
}

export async function signOut() {
	await remove('/local/v1/session', { signsIn: true });
	await leave('You are signed out.');
}

addEventListener('signedout', () => {
	if (session.state !== 'in') return;
	unfollow();
	set({ state: 'out', account: null, notice: 'Your session has ended. Sign in again.' });
});

// An account that is no administrator any more gets the pages that it may still use.
subscribe('link', () => {
	if (live.error?.status === 403) check().catch(() => {});
});

const typed = { required: true, autocapitalize: 'none', spellcheck: 'false' };

function Account({ complete, hint }) {
	const [shown, setShown] = useState(false);
	return html`<${Field} label="E-mail" name="email" type="email" autocomplete="username" ...${typed} />
		<${Field} label="Password" hint=${hint} name="password" type=${shown ? 'text' : 'password'} autocomplete=${complete} ...${typed} />
		<${Check} checked=${shown} onChange=${({ target }) => setShown(target.checked)}>Show the password<//>`;
}

function Setup() {
	return html`<${Title}>Set up this gateway<//>
		<p>There is no account yet. The <strong>setup code</strong> is on the screen of the board and in its log: <code>journalctl -u gatehouse</code></p>
		<${Form} submit="Create the administrator" onSubmit=${setUp}>
			<${Field} label="Setup code" name="code" ...${typed} autocapitalize="characters" />
			<${Account} complete="new-password" hint="8 characters or more. You will sign in with it." />
		<//>`;
}

function Known() {
	return html`<${Title}>Sign in<//>
		${session.notice && html`<p class="notice">${session.notice}</p>`}
		<${Form} submit="Sign in" onSubmit=${signIn}><${Account} complete="current-password" /><//>
		<details>
			<summary>I cannot sign in</summary>
			<p>An administrator sets a new password under People, or on the gateway: <code>gatehouse account password EMAIL</code></p>
			<p>Does the browser warn of the certificate? <a href="/trust">Trust this gateway</a> once.</p>
		</details>`;
}

export function SignIn() {
	return html`<main class="narrow card">
		<p><${Brand}>${session.gateway || 'Gatehouse'}<//></p>
		${session.state === 'setup' ? html`<${Setup} />` : html`<${Known} />`}
	</main>`;
}
