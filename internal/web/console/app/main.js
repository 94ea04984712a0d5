// The frame around the pages: the header, the navigation, the address.

import { live, publish } from './live.js';
import { SignIn, check, session, signOut } from './session.js';
import { Action, Brand, Dialog, Problem, Wait, clockTime, html, render, useLink, useLoad, useRef, useState, useTopic } from './ui.js';

// The pages: modules of that name whose default export is a component. It gets args, the
// parts of its address after its own name, and query. Those with a title stand in the navigation.
const pages = [
	{ name: 'doors', title: 'Doors' },
	{ name: 'people', title: 'People' },
	{ name: 'journal', title: 'Journal' },
	{ name: 'gateway', title: 'Gateway' },
	{ name: 'station', under: 'doors' },
];

// address reads the fragment: #/station/1042?x=1 is the page station with the argument 1042.
function address() {
	const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
	const [name, ...args] = path.split('/').map(decode);
	return { name, args, query: new URLSearchParams(query) };
}

addEventListener('hashchange', () => publish('address'));

function decode(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

function Link() {
	const link = useLink();
	const texts = {
		connecting: live.error ? 'Not connected' : 'Connecting…',
		live: 'Live',
		lost: `Last known ${clockTime(live.known)}`,
	};
	return html`<output role="status" class=${'link ' + link}><span>${texts[link]}</span></output>`;
}

// Gone says that the gateway is out of reach. It moves nothing: a button that moves is pressed by mistake.
function Gone() {
	return useLink() !== 'live' && html`<aside class="gone" aria-label="Connection">
		<strong>${live.error?.message ?? 'The gateway does not answer.'}</strong>
		${live.known > 0 && ` What you see was last known at ${clockTime(live.known)}.`} This page tries again every second.
	</aside>`;
}

function Navigation({ current }) {
	return html`<nav aria-label="Pages">
		${pages.map(({ name, title }) => title && html`<a key=${name} href=${'#/' + name}
			aria-current=${name === current.name ? 'page' : name === current.under ? 'true' : undefined}>${title}</a>`)}
	</nav>`;
}

// Account is a dialog, so that a tap beside it opens no door.
function Account() {
	const [open, setOpen] = useState(false);
	const { email, admin } = session.account;
	const close = () => setOpen(false);
	return html`<button class="plain" onClick=${() => setOpen(true)}>Account</button>
		${open && html`<${Dialog} title=${email} onClose=${close}>
			<p>${admin ? 'Administrator' : 'May open doors'}</p>
			<div class="actions"><${Action} act=${signOut}>Sign out<//><button onClick=${close}>Close</button></div>
		<//>`}`;
}

function Page({ page, at }) {
	const { value, error } = useLoad(() => import(`./${page.name}.js`));
	if (error) return html`<${Problem} text="This page could not be loaded." again=${() => location.reload()} />`;
	return value && html`<${value.default} key=${at.args.join('/')} args=${at.args} query=${at.query} />`;
}

function Console() {
	useTopic('address');
	const at = address();
	const { admin } = session.account;
	const page = (admin && pages.find(({ name }) => name === at.name)) || pages[0];
	const main = useRef(null);
	const skip = (event) => {
		event.preventDefault();
		main.current.focus();
	};
	return html`<a class="unseen" href="#main" onClick=${skip}>Skip to the page</a>
		<header>
			<a href="#/doors" aria-label="Gatehouse"><${Brand}>Gatehouse<//></a>
			${admin && html`<${Navigation} current=${page} />`}
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
	useTopic('session');
	if (session.state === 'asking') return html`<${Start} />`;
	return session.state === 'in' ? html`<${Console} />` : html`<${SignIn} key=${session.state} />`;
}

const root = document.getElementById('app');
root.replaceChildren();
render(html`<${App} />`, root);
