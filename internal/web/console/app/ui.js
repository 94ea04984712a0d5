// What the pages are built of.

import { h, render } from '../vendor/preact.js';
import { useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from '../vendor/hooks.js';
import htm from '../vendor/htm.js';
import { get, remove } from './api.js';
import { live, stationName, subscribe } from './live.js';

export const html = htm.bind(h);
export { render, useEffect, useMemo, useRef, useState };

export function useTopic(topic) {
	const [, redraw] = useReducer((n) => n + 1, 0);
	useLayoutEffect(() => subscribe(topic, redraw), [topic]);
}

// useLink returns "connecting", "live" or "lost": whether what is shown is current.
export function useLink() {
	useTopic('link');
	return live.link;
}

export function announce(text) {
	const said = document.getElementById('said');
	said.textContent = said.textContent === text ? text + '\u00a0' : text;
}

// useTask returns { run, busy, done, error }: run does nothing while busy, and announces said at a good end.
function useTask(work, said) {
	const [state, setState] = useState({});
	const run = async (...args) => {
		if (state.busy) return;
		setState({ busy: true });
		try {
			await work(...args);
			if (said) announce(said);
			setState({ done: true });
		} catch ({ message }) {
			setState({ error: message });
		}
	};
	return { run, ...state };
}

// useLoad returns { value, error, again }; a former value stays while it loads again.
export function useLoad(load) {
	const [state, setState] = useState({ error: '' });
	const current = useRef(null);
	const again = () => {
		current.current?.abort();
		const { signal } = (current.current = new AbortController());
		const set = (change) => signal.aborted || setState((before) => ({ ...before, ...change }));
		return load(signal).then((value) => set({ value, error: '' }), ({ message }) => set({ error: message }));
	};
	useEffect(() => {
		again();
		return () => current.current.abort();
	}, []);
	return { ...state, again };
}

// Moments in words, in the time zone of the site, or of this device where zone is "".
const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const date = { day: 'numeric', month: 'short', year: 'numeric' };
const styles = {
	day: { ...date, weekday: 'long', month: 'long' },
	minute: clock,
	time: { ...clock, second: '2-digit' },
	moment: { ...date, ...clock },
	input: { dateStyle: 'short', timeStyle: 'short' },
};
const formats = new Map(); // to create one takes long

export function inZone(zone, at, style = 'moment') {
	const key = zone + style;
	const create = (timeZone) => formats.set(key, new Intl.DateTimeFormat(style === 'input' ? 'sv' : [], { ...styles[style], timeZone }));
	try {
		if (!formats.has(key)) create(zone || undefined);
	} catch {
		create(); // an older browser does not know every zone
	}
	return formats.get(key).format(new Date(at));
}

// localOf returns a moment as an input of type datetime-local has it, which is as Swedes write it: "2026-11-23T14:02".
export function localOf(zone, at) {
	return inZone(zone, at, 'input').replace(' ', 'T');
}

// momentOf is the reverse of localOf, in RFC 3339. A time that a change of the clock leaves out becomes one beside it.
export function momentOf(zone, local) {
	const wanted = Date.parse(local + 'Z');
	let at = wanted;
	for (let i = 0; i < 2; i++) at += wanted - Date.parse(localOf(zone, at) + 'Z');
	return new Date(at).toISOString();
}

// clockTime words a moment on this device's clock, with the day if that is not today.
export function clockTime(at) {
	const today = inZone('', at, 'day') === inZone('', live.now(), 'day');
	return inZone('', at, today ? 'minute' : 'moment');
}

// ageText rounds up: nothing is shown younger than it is. While nothing is current, it is
// the age when that was last known.
function ageText(moment) {
	const now = live.link !== 'live' && live.known ? live.known + live.ahead : live.now();
	const age = (now - moment) / 1000;
	if (age <= 10) return 'just now';
	if (age <= 60) return `${Math.ceil(age / 10) * 10} s ago`;
	if (age <= 3600) return `${Math.ceil(age / 60)} min ago`;
	return `at ${clockTime(moment)}`;
}

// Age keeps itself right without drawing anything else. It stands still while nothing is current.
export function Age({ at, never, before = '' }) {
	const element = useRef(null);
	useLayoutEffect(() => {
		const moment = Date.parse(at);
		const update = () => {
			const text = at ? before + ageText(moment) : never;
			if (element.current.textContent !== text) element.current.textContent = text;
		};
		update();
		return subscribe('second', () => (live.link === 'live' || !live.known) && update());
	}, [at]);
	return html`<small ref=${element}></small>`;
}

// Field is a labelled input; the other properties are those of the input, or of as.
export function Field({ label, hint, as = 'input', autocomplete = 'off', children, ...input }) {
	const id = useId();
	return html`<div class="field">
		<label for=${id}>${label}</label>
		${h(as, { id, autocomplete, 'aria-describedby': hint && id + 'hint', ...input }, children)}
		${hint && html`<small id=${id + 'hint'}>${hint}</small>`}
	</div>`;
}

export function Options({ of }) {
	return of.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`);
}

export function Select({ options, ...field }) {
	return html`<${Field} as="select" ...${field}><${Options} of=${options} /><//>`;
}

export function Check({ children, ...input }) {
	return html`<label class="check"><input type="checkbox" ...${input} /> <span>${children}</span></label>`;
}

// Problem is an error, which a screen reader says at once.
export function Problem({ text, again }) {
	return html`<div role="alert" class="problem" hidden=${!text}>
		${text}${text && again && html` <button class="plain" onClick=${again}>Try again</button>`}
	</div>`;
}

export function Brand({ children }) {
	return html`<span class="brand"><img src="/console/icon.svg" alt="" width="28" height="28" /><span>${children}</span></span>`;
}

export function Wait() {
	return html`<p class="wait">Loading…</p>`;
}

export function Empty({ title, children }) {
	return html`<div class="empty"><p><strong>${title}</strong></p>${children}</div>`;
}

// Badge is a word of state: tone is ok, warn, bad or none.
export function Badge({ tone, children }) {
	return html`<span class=${'badge ' + (tone || '')}>${children}</span>`;
}

// Action is a button for what takes time, with its error; at the end it shows said.
export function Action({ act, said, children, ...button }) {
	const { run, busy, done, error } = useTask(act, said);
	return html`<button ...${button} onClick=${() => run()} aria-disabled=${busy}>${busy ? 'One moment…' : (done && said) || children}</button><${Problem} text=${error} />`;
}

// Form calls onSubmit with the fields by name and as FormData; at the end it shows its error, or said.
export function Form({ onSubmit, submit, kind = 'primary', said, cancel, children }) {
	const { run, busy, done, error } = useTask(onSubmit, said);
	const send = (event) => {
		event.preventDefault();
		const fields = new FormData(event.target);
		run(Object.fromEntries(fields), fields);
	};
	return html`<form onSubmit=${send}>
		${children}
		<${Problem} text=${error} />
		${done && said && html`<p class="notice">${said}</p>`}
		<div class="actions">
			<button class=${kind} aria-disabled=${busy}>${busy ? 'One moment…' : submit}</button>
			${cancel && html`<button type="button" onClick=${cancel}>Cancel</button>`}
		</div>
	</form>`;
}

// Name is a name that keeps its height when it is changed: what opens a door may stand below it.
export function Name({ text }) {
	const first = useRef(text).current;
	return first === text ? text : html`<span class="was">${first}</span><span class="is">${text}</span>`;
}

// Title gets the focus when it appears.
export function Title({ back, level = 'h1', children }) {
	const element = useRef(null);
	const text = [children].flat().join('');
	useEffect(() => {
		if (level === 'h1') document.title = `${text} · Gatehouse`;
	}, [text]);
	useEffect(() => element.current.focus({ preventScroll: level === 'h1' }), []);
	return html`${back && html`<a class="back" href=${'#/' + back.toLowerCase()}>‹ ${back}</a>`}
		${h(level, { ref: element, tabindex: -1 }, html`<${Name} text=${text} />`)}`;
}

// Load gets paths of /admin/v1 as one object, in which later ones win, and shows
// children(object, change). It loads again every so many seconds, when the connection is
// back, and with change, which waits for a request and returns its answer.
export function Load({ paths, every, children }) {
	const { value, error, again } = useLoad(async (signal) => {
		const all = await Promise.all(paths.map((path) => get(path, { signal })));
		return Object.assign({}, ...all);
	});
	useEffect(() => subscribe('link', () => live.link === 'live' && again()), []);
	useEffect(() => {
		let seconds = 0;
		return subscribe('second', () => ++seconds % every === 0 && live.link === 'live' && again());
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

// Pairs is a list of names and values; what has no value is left out.
export function Pairs({ of }) {
	return html`<dl class="pairs">
		${Object.entries(of).map(([name, value]) => (value || value === 0) && html`<dt>${name}</dt><dd>${value}</dd>`)}
	</dl>`;
}

export function Block({ title, side, children }) {
	return html`<section class="card" aria-label=${title}><div class="top"><h2>${title}</h2>${side}</div>${children}</section>`;
}

// List shows things by name, each with a note, a link, or an end: a button that label names.
export function List({ of, name = (one) => one.name, note, href, end, label = 'Remove', more }) {
	return html`<ul class="list">${of.map((one) => html`<li key=${one.sessionId || name(one)}>
		<span>${href ? html`<a href=${href(one)}>${name(one)}</a>` : html`<b>${name(one)}</b>`} ${note && html`<small>${note(one)}</small>`}</span>
		${end && html`<span>${more?.(one)}<${Action} class="plain" act=${() => end(one)} aria-label=${`${label} ${name(one)}`}>${label}<//></span>`}
	</li>`)}</ul>`;
}

// The focus goes into a Dialog, stays there, and comes back at the end.
export function Dialog({ title, onClose, children }) {
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

// Ask is a button that opens a dialog with a form. act gets its fields; show may return what to show of its answer.
export function Ask({ button, title = button, submit = 'Add', kind, act, show, children, ...rest }) {
	const [open, setOpen] = useState(null); // "form", or what is shown
	const close = () => setOpen(null);
	const send = async (...fields) => {
		const answer = await act(...fields);
		setOpen(show?.(answer) || null);
	};
	return html`<button class=${kind} onClick=${() => setOpen('form')} ...${rest}>${button}</button>
		${open && html`<${Dialog} title=${title} onClose=${close}>
			${open === 'form'
				? html`<${Form} submit=${submit} kind=${kind === 'danger' ? kind : 'primary'} cancel=${close} onSubmit=${send}>${children}<//>`
				: html`${open}<button class="primary" onClick=${close}>Done</button>`}
		<//>`}`;
}

export function Removal({ path, title, next, children }) {
	const end = async () => {
		await remove(path);
		location.hash = next;
	};
	return html`<${Ask} button="Remove" kind="danger" title=${title} submit="Remove" act=${end}>${children}<//>`;
}

export function Secrets({ of }) {
	return html`<p class="notice">Copy it now: it is shown this once.</p>
		<dl>${Object.entries(of).map(([name, text]) => text && html`<div key=${name} class="secret">
			<dt>${name}</dt>
			<dd><code>${text}</code><span><${Action} class="plain" said="Copied" act=${() => navigator.clipboard.writeText(text)} aria-label=${`Copy ${name}`}>Copy<//></span></dd>
		</div>`)}</dl>`;
}

export function stationOptions() {
	return [...live.stations.keys()].sort((a, b) => a - b).map((id) => [id, stationName(id)]);
}
