// The frame around the pages: the header, the navigation, the address.

import { check, onSession, session, signOut } from './session.js';
import { live } from './live.js';
import { pages } from './pages.js';
import SignIn from './signin.js';
import { Problem, clockTime, html, render, useEffect, useLink, useLoad, useRedraw, useRef, useState, useTask } from './ui.js';

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

/** Link says whether what the page shows is current. */
function Link() {
	const link = useLink();
	const texts = {
		connecting: live.error ? 'Not connected' : 'Connecting…',
		live: 'Live',
		lost: `Last known ${clockTime(live.known)}`,
	};
	return html`<output role="status" class=${'link ' + link}>${texts[link]}</output>`;
}

/** Gone says that the gateway is out of reach, once that is no moment any more. It moves nothing: a button that moves is pressed by mistake. */
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

function Navigation({ current }) {
	const shown = pages.filter((page) => page.title && (!page.admin || session.account.admin));
	if (shown.length < 2) return null;
	return html`<nav aria-label="Pages">
		${shown.map(
			(page) => html`<a key=${page.name} href=${'#/' + page.name}
				aria-current=${page === current ? 'page' : page.name === current.under ? 'true' : undefined}>${page.title}</a>`,
		)}
	</nav>`;
}

function Account() {
	const menu = useRef(null);
	const [run, busy, error] = useTask(signOut);
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
		<div class="menu">
			<p>${session.account.email}<br /><small>${session.account.admin ? 'Administrator' : 'May use the doors below'}</small></p>
			<${Problem} text=${error} />
			<button type="button" onClick=${run} aria-disabled=${busy}>Sign out</button>
		</div>
	</details>`;
}

/** Page loads the module of a page and shows it. */
function Page({ page, at }) {
	const { value, error } = useLoad(() => page.load(), [page]);
	if (error) return html`<${Problem} text="This page could not be loaded." again=${() => location.reload()} />`;
	if (!value) return null;
	return html`<${value.default} key=${at.args.join('/')} args=${at.args} query=${at.query} />`;
}

function Console() {
	const at = useAddress();
	const mine = pages.filter((page) => !page.admin || session.account.admin);
	const page = mine.find((one) => one.name === at.name) ?? mine[0];
	return html`<a class="skip" href="#main" onClick=${skip}>Skip to the page</a>
		<header>
			<a class="brand" href="#/doors" aria-label="Gatehouse"><img src="/console/icon.svg" alt="" width="28" height="28" /><span>Gatehouse</span></a>
			<${Navigation} current=${page} />
			<div class="status"><${Link} /><${Account} /></div>
		</header>
		<main id="main" tabindex="-1"><${Page} key=${page.name} page=${page} at=${at} /></main>
		<${Gone} />`;
}

function skip(event) {
	event.preventDefault();
	document.getElementById('main').focus();
}

/** Start asks who is signed in, until the gateway answers. */
function Start() {
	const { error, again } = useLoad(check);
	return html`<main class="narrow">
		${error ? html`<${Problem} text=${error} again=${again} />` : html`<p class="wait">Loading…</p>`}
	</main>`;
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
