// The frame around the pages: the header, the navigation, the address.

import { check, onSession, session, signOut } from './session.js';
import { live } from './live.js';
import SignIn from './signin.js';
import { Action, Brand, Problem, Wait, clockTime, html, render, useEffect, useLink, useLoad, useRedraw, useRef, useState } from './ui.js';

/**
 * The pages: modules whose default export is a component. It gets args, the parts of its
 * address after its own name, and query. Those with a title stand in the navigation.
 */
const pages = [
	{ name: 'doors', title: 'Doors', load: () => import('./doors.js') },
	{ name: 'people', title: 'People', admin: true, load: () => import('./people.js') },
	{ name: 'journal', title: 'Journal', admin: true, load: () => import('./journal.js') },
	{ name: 'gateway', title: 'Gateway', admin: true, load: () => import('./gateway.js') },
	{ name: 'station', admin: true, under: 'doors', load: () => import('./station.js') },
	{ name: 'add', admin: true, under: 'doors', load: () => import('./add.js') },
];

/** address reads the fragment: #/station/1042?x=1 is the page station with the argument 1042. */
function address() {
	const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
	const [name, ...args] = path.split('/').map(decode);
	return { name, args, query: new URLSearchParams(query) };
}

function decode(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

function useAddress() {
	const [at, setAt] = useState(address);
	useEffect(() => {
		const change = () => setAt(address());
		addEventListener('hashchange', change);
		return () => removeEventListener('hashchange', change);
	}, []);
	return at;
}

function Link() {
	const link = useLink();
	const texts = {
		connecting: live.error ? 'Not connected' : 'Connecting…',
		live: 'Live',
		lost: `Last known ${clockTime(live.known)}`,
	};
	return html`<output role="status" class=${'link ' + link}>${texts[link]}</output>`;
}

/** Gone says that the gateway is out of reach, after a moment. It moves nothing: a button that moves is pressed by mistake. */
function Gone() {
	const link = useLink();
	const [shown, setShown] = useState(false);
	useEffect(() => {
		if (link === 'live') return setShown(false);
		const timer = setTimeout(() => setShown(true), 1_500);
		return () => clearTimeout(timer);
	}, [link]);
	if (!shown) return null;
	return html`<aside class="gone" aria-label="Connection">
		<strong>${live.error?.message ?? 'The gateway does not answer.'}</strong>${' '}
		${live.known ? `What you see was last known at ${clockTime(live.known, true)}. ` : ''}This page tries again every second.
	</aside>`;
}

function Navigation({ shown, current }) {
	return shown.length > 1 && html`<nav aria-label="Pages">
		${shown.map(({ name, title }) => html`<a key=${name} href=${'#/' + name}
			aria-current=${name === current.name ? 'page' : name === current.under ? 'true' : undefined}>${title}</a>`)}
	</nav>`;
}

function Account() {
	const menu = useRef(null);
	useEffect(() => {
		const close = (event) => {
			if (event.key === 'Escape' || (event.type === 'click' && !menu.current?.contains(event.target))) menu.current.open = false;
		};
		const events = ['click', 'keydown'];
		events.forEach((name) => document.addEventListener(name, close));
		return () => events.forEach((name) => document.removeEventListener(name, close));
	}, []);
	return html`<details class="account" ref=${menu}>
		<summary>Account</summary>
		<div class="card">
			<p>${session.account.email}<br /><small>${session.account.admin ? 'Administrator' : 'May use the doors below'}</small></p>
			<${Action} act=${signOut}>Sign out<//>
		</div>
	</details>`;
}

function Page({ page, at }) {
	const { value, error } = useLoad(() => page.load(), []);
	if (error) return html`<${Problem} text="This page could not be loaded." again=${() => location.reload()} />`;
	return value && html`<${value.default} key=${at.args.join('/')} args=${at.args} query=${at.query} />`;
}

function Console() {
	const at = useAddress();
	const mine = pages.filter((page) => !page.admin || session.account.admin);
	const page = mine.find((one) => one.name === at.name) ?? mine[0];
	const main = useRef(null);
	const skip = (event) => {
		event.preventDefault();
		main.current.focus();
	};
	return html`<a class="skip" href="#main" onClick=${skip}>Skip to the page</a>
		<header>
			<a href="#/doors" aria-label="Gatehouse"><${Brand}>Gatehouse<//></a>
			<${Navigation} shown=${mine.filter(({ title }) => title)} current=${page} />
			<div><${Link} /><${Account} /></div>
		</header>
		<main id="main" ref=${main} tabindex="-1"><${Page} key=${page.name} page=${page} at=${at} /></main>
		<${Gone} />`;
}

function Start() {
	const { error, again } = useLoad(check);
	return html`<main class="narrow">${error ? html`<${Problem} text=${error} again=${again} />` : html`<${Wait} />`}</main>`;
}

function App() {
	const redraw = useRedraw();
	useEffect(() => onSession(redraw), []);
	if (session.state === 'asking') return html`<${Start} />`;
	return session.state === 'in' ? html`<${Console} />` : html`<${SignIn} key=${session.state} />`;
}

const root = document.getElementById('app');
root.replaceChildren();
render(html`<${App} />`, root);
