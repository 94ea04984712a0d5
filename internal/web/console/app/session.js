// Who is signed in to this page. The cookie of the session is out of its reach; the
// gateway says whose it is.

import { get, onSignedOut, post, remove } from './api.js';
import { follow, live, subscribe, unfollow } from './live.js';

/**
 * state is "asking", "in", "out" or "setup" (there is no account yet); account has
 * accountId, email and admin; notice says why the page wants a sign-in.
 */
export const session = { state: 'asking', account: null, gateway: '', notice: '' };

let changed = () => {};

export function onSession(listener) {
	changed = listener;
}

function set(change) {
	Object.assign(session, change);
	changed();
}

function enter(account) {
	follow(account.admin);
	set({ state: 'in', account, notice: '' });
}

async function leave(notice) {
	unfollow();
	const setup = await get('/local/v1/setup').catch(() => ({ open: false, name: '' }));
	set({ state: setup.open ? 'setup' : 'out', account: null, gateway: setup.name, notice });
}

/** check asks the gateway whose session this is. It throws when the gateway does not answer. */
export async function check() {
	try {
		enter(await get('/local/v1/session', { signsIn: true }));
	} catch (error) {
		if (error.status !== 401) throw error;
		await leave('');
	}
}

export async function signIn(email, password) {
	enter(await post('/local/v1/session', { email, password }, { signsIn: true }));
}

/** setUp creates the first administrator with the setup code of the board, and signs in. */
export async function setUp(code, email, password) {
	await post('/local/v1/setup', { code, email, password }, { signsIn: true });
	await signIn(email, password).catch(() => leave('The administrator is created. Sign in.'));
}

export async function signOut() {
	await remove('/local/v1/session', { signsIn: true });
	await leave('You are signed out.');
}

onSignedOut(() => {
	if (session.state !== 'in') return;
	unfollow();
	set({ state: 'out', account: null, notice: 'Your session has ended. Sign in again.' });
});

// An account that is no administrator any more gets the pages that it may still use.
subscribe('link', () => {
	if (live.error?.status === 403) check().catch(() => {});
});
