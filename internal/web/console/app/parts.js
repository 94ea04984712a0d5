// Parts that the pages of administrators share, and times in the time zone of the site.

import { useId } from '../vendor/hooks.js';
import { get } from './api.js';
import { everySecond, live, stationName } from './live.js';
import { Action, Form, Problem, Wait, announce, html, useEffect, useLayoutEffect, useLink, useLoad, useRef, useState } from './ui.js';

/**
 * Load gets paths of /admin/v1 as one object, in which later ones win, and shows
 * children(object, change). It loads again every so many seconds, when the connection is
 * back, and with change, which waits for a request and returns its answer.
 */
export function Load({ paths, every, children }) {
	const link = useLink();
	const before = useRef(link);
	const { value, error, again } = useLoad(async (signal) => {
		const all = await Promise.all(paths.map((path) => get('/admin/v1/' + path, { signal })));
		return Object.assign({}, ...all);
	});
	useEffect(() => {
		if (link === 'live' && before.current !== link) again();
		before.current = link;
	}, [link]);
	useEffect(() => {
		let seconds = 0;
		return everySecond(() => ++seconds % every === 0 && live.link === 'live' && again());
	}, []);
	const change = async (request) => {
		const answer = await request;
		announce('Done.');
		await again();
		return answer;
	};
	return html`<${Problem} text=${error} again=${again} />
		${value ? children(value, change) : !error && html`<${Wait} />`}`;
}

/** Pairs is a list of names and values; what has no value is left out. */
export function Pairs({ of }) {
	return html`<dl class="pairs">
		${Object.entries(of).map(([name, value]) => (value || value === 0) && html`<dt>${name}</dt><dd>${value}</dd>`)}
	</dl>`;
}

/** Block is a titled part of a page; beside the title stands what side is. */
export function Block({ title, side, children }) {
	return html`<section class="card" aria-label=${title}><div class="top"><h2>${title}</h2>${side}</div>${children}</section>`;
}

/** List shows things by name, each with a note, a link, or an end: a button that label names. */
export function List({ of, name = (one) => one.name, note, href, end, label = 'Remove', more }) {
	return html`<ul class="list">${of.map((one) => html`<li key=${name(one)}>
		<span>${href ? html`<a href=${href(one)}>${name(one)}</a>` : html`<b>${name(one)}</b>`} ${note && html`<small>${note(one)}</small>`}</span>
		${end && html`<span>${more?.(one)}<${Action} class="plain" act=${() => end(one)} aria-label=${`${label} ${name(one)}`}>${label}<//></span>`}
	</li>`)}</ul>`;
}

/** Dialog is modal; the focus goes into it, stays there, and comes back at the end. */
function Dialog({ title, onClose, children }) {
	const element = useRef(null);
	const id = useId();
	useLayoutEffect(() => {
		const before = document.activeElement;
		element.current.showModal();
		return () => before?.isConnected && before.focus();
	}, []);
	return html`<dialog ref=${element} aria-labelledby=${id} onClose=${onClose}>
		<h2 id=${id} tabindex="-1" autofocus>${title}</h2>
		${children}
	</dialog>`;
}

/** Ask is a button that opens a dialog with a form. act gets its fields; show may return what to show of its answer. */
export function Ask({ button, title = button, submit = 'Add', kind, act, show, children, ...rest }) {
	const [open, setOpen] = useState(false);
	const [shown, setShown] = useState(null);
	const close = () => {
		setOpen(false);
		setShown(null);
	};
	const send = async (...fields) => {
		const answer = await act(...fields);
		const found = show?.(answer);
		if (found) setShown(found);
		else close();
	};
	return html`<button type="button" class=${kind} onClick=${() => setOpen(true)} ...${rest}>${button}</button>
		${open && html`<${Dialog} title=${title} onClose=${close}>
			${shown
				? html`${shown}<button type="button" class="primary" onClick=${close}>Done</button>`
				: html`<${Form} submit=${submit} danger=${kind === 'danger'} cancel=${close} onSubmit=${send}>${children}<//>`}
		<//>`}`;
}

/** Secrets are texts to be copied, by name, which are shown this once. */
export function Secrets({ of }) {
	return html`<p class="notice">Copy it now: it is shown this once.</p>
		<dl>${Object.entries(of).map(([name, text]) => text && html`<${Secret} key=${name} name=${name} text=${text} />`)}</dl>`;
}

function Secret({ name, text }) {
	const [copied, setCopied] = useState('');
	const copy = () => navigator.clipboard.writeText(text).then(() => {
		setCopied('Copied');
		announce(name + ' is copied.');
	});
	return html`<div class="secret">
		<dt>${name}</dt>
		<dd><code>${text}</code><span><${Action} class="plain" act=${copy} aria-label=${`Copy ${name}`}>${copied || 'Copy'}<//></span></dd>
	</div>`;
}

/** stationOptions are the options for stations, in order of their ids. */
export function stationOptions() {
	return [...live.stations.keys()].sort((a, b) => a - b).map((id) => [id, stationName(id)]);
}

const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const styles = {
	day: { weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' },
	time: { ...clock, second: '2-digit' },
	moment: { day: 'numeric', month: 'short', year: 'numeric', ...clock },
	input: { year: 'numeric', month: '2-digit', day: '2-digit', ...clock },
};
const formats = new Map(); // to create one takes long

function formatOf(zone, style) {
	const key = zone + style;
	const create = (timeZone) => formats.set(key, new Intl.DateTimeFormat(style === 'input' ? 'en' : undefined, { ...styles[style], timeZone }));
	try {
		if (!formats.has(key)) create(zone || undefined);
	} catch {
		create(); // an older browser does not know every zone
	}
	return formats.get(key);
}

/** inZone words a moment in a time zone, "" being this device's, in one of the styles. */
export function inZone(zone, at, style = 'moment') {
	return formatOf(zone ?? '', style).format(new Date(at));
}

/** localOf returns a moment as an input of type datetime-local has it, such as "2026-11-23T14:02". */
export function localOf(zone, at) {
	const part = Object.fromEntries(formatOf(zone, 'input').formatToParts(new Date(at)).map(({ type, value }) => [type, value]));
	return `${part.year}-${part.month}-${part.day}T${part.hour}:${part.minute}`;
}

/** momentOf is the reverse of localOf, in RFC 3339. A time that a change of the clock leaves out becomes one beside it. */
export function momentOf(zone, local) {
	const wanted = Date.parse(local + 'Z');
	let at = wanted;
	for (let i = 0; i < 2; i++) at += wanted - Date.parse(localOf(zone, at) + 'Z');
	return new Date(at).toISOString();
}
