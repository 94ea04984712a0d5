// What the pages are built of.

import { h, render } from '../vendor/preact.js';
import { useEffect, useId, useLayoutEffect, useReducer, useRef, useState } from '../vendor/hooks.js';
import htm from '../vendor/htm.js';
import { sentence } from './api.js';
import { everySecond, live, subscribe } from './live.js';

export const html = htm.bind(h);
export { render, useEffect, useId, useLayoutEffect, useReducer, useRef, useState };

/** useRedraw returns a function that draws the component again. */
export function useRedraw() {
	return useReducer((n) => n + 1, 0)[1];
}

/** useTopic draws the component again when a topic of live changes. */
export function useTopic(topic) {
	const redraw = useRedraw();
	useLayoutEffect(() => subscribe(topic, redraw), [topic]);
}

/** useLink returns "connecting", "live" or "lost": whether what is shown is current. */
export function useLink() {
	useTopic('link');
	return live.link;
}

/** announce has a screen reader say a sentence. */
export function announce(text) {
	const said = document.getElementById('said');
	said.textContent = said.textContent === text ? text + '\u00a0' : text;
}

/**
 * useTask runs something that takes time, once at a time. It returns [run, busy, error]:
 * run does nothing while busy; error is a sentence, or ''.
 */
export function useTask(work) {
	const [state, setState] = useState({ busy: false, error: '' });
	const mine = useRef({ busy: false, gone: false }).current;
	useEffect(() => () => void (mine.gone = true), []);
	const run = async (...args) => {
		if (mine.busy) return;
		mine.busy = true;
		setState({ busy: true, error: '' });
		let error = '';
		try {
			await work(...args);
		} catch (failed) {
			error = sentence(failed.message);
		}
		mine.busy = false;
		if (!mine.gone) setState({ busy: false, error });
	};
	return [run, state.busy, state.error];
}

/**
 * useLoad loads a value when the component appears or a dependency changes. It returns
 * { value, error, busy, again }; a former value stays while it loads again.
 */
export function useLoad(load, dependencies = []) {
	const [state, setState] = useState({ value: undefined, error: '', busy: true });
	const current = useRef(null);
	const again = () => {
		current.current?.abort();
		const attempt = (current.current = new AbortController());
		const set = (change) => attempt.signal.aborted || setState((before) => ({ ...before, busy: false, ...change }));
		set({ busy: true });
		return load(attempt.signal).then(
			(value) => set({ value, error: '' }),
			(error) => set({ error: sentence(error.message) }),
		);
	};
	useEffect(() => {
		again();
		return () => current.current.abort();
	}, dependencies);
	return { ...state, again };
}

/** clockTime returns a moment as people say it: 14:02, or with the day if that is another. */
export function clockTime(moment, seconds = false) {
	const date = new Date(moment);
	const time = date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: seconds ? '2-digit' : undefined });
	const today = new Date(live.now()).toDateString() === date.toDateString();
	return today ? time : `${date.toLocaleDateString([], { day: 'numeric', month: 'short', year: 'numeric' })}, ${time}`;
}

/**
 * ageText returns how long ago a moment of the gateway was. It rounds up: nothing is shown
 * younger than it is. While nothing is current, it is when that was last known.
 */
export function ageText(moment) {
	if (live.link !== 'live' && live.known) return `last known ${clockTime(live.known)}`;
	const age = (live.now() - moment) / 1000;
	if (age <= 10) return 'just now';
	if (age <= 60) return `${Math.ceil(age / 10) * 10} s ago`;
	if (age <= 3600) return `${Math.ceil(age / 60)} min ago`;
	return `at ${clockTime(moment)}`;
}

const ages = new Set();
everySecond(() => ages.forEach((update) => update()));

/** Age shows how long ago a timestamp was, and keeps it right without drawing anything else. */
export function Age({ at }) {
	const element = useRef(null);
	useLayoutEffect(() => {
		const moment = Date.parse(at);
		const update = () => {
			const text = ageText(moment);
			if (element.current.textContent !== text) element.current.textContent = text;
		};
		update();
		ages.add(update);
		return () => ages.delete(update);
	}, [at]);
	return html`<time class="age" datetime=${at} ref=${element}></time>`;
}

/** Moment shows a timestamp as a point in time. */
export function Moment({ at, seconds }) {
	return html`<time datetime=${at}>${clockTime(at, seconds)}</time>`;
}

/** Field is a labelled input; the other properties are those of the input, or of as. */
export function Field({ label, hint, as = 'input', children, ...input }) {
	const id = useId();
	return html`<div class="field">
		<label for=${id}>${label}</label>
		${h(as, { id, 'aria-describedby': hint ? id + 'hint' : undefined, ...input }, children)}
		${hint && html`<small id=${id + 'hint'}>${hint}</small>`}
	</div>`;
}

/** Problem shows an error, which a screen reader says at once. */
export function Problem({ text, again }) {
	return html`<div role="alert" class="problem" hidden=${!text}>
		${text}${text && again && html` <button type="button" class="plain" onClick=${again}>Try again</button>`}
	</div>`;
}

/** Empty says that there is nothing, and what to do about it. */
export function Empty({ title, children }) {
	return html`<div class="empty">
		<p><strong>${title}</strong></p>
		${children}
	</div>`;
}

/** Badge is a word of state: tone is ok, warn, bad or plain. */
export function Badge({ tone = 'plain', children }) {
	return html`<span class=${'badge ' + tone}>${children}</span>`;
}

/** Form calls onSubmit with the fields by name, and as FormData, and shows its error. */
export function Form({ onSubmit, submit, busyText, danger, cancel, children }) {
	const [run, busy, error] = useTask(onSubmit);
	const send = (event) => {
		event.preventDefault();
		const fields = new FormData(event.target);
		run(Object.fromEntries(fields), fields);
	};
	return html`<form onSubmit=${send}>
		${children}
		<${Problem} text=${error} />
		<div class="actions">
			<button class=${danger ? 'danger' : 'primary'} aria-disabled=${busy}>${busy ? (busyText ?? 'One moment…') : submit}</button>
			${cancel && html`<button type="button" onClick=${cancel}>Cancel</button>`}
		</div>
	</form>`;
}

/** Dialog is modal; the focus goes into it, stays there, and comes back at the end. */
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

/** Copy copies a text; where the browser does not allow that, the text stays to be selected. */
export function Copy({ text, label = 'Copy', what = 'It' }) {
	const [copied, setCopied] = useState('');
	const copy = async () => {
		try {
			await navigator.clipboard.writeText(text);
			setCopied('Copied');
			announce(what + ' is copied.');
		} catch {
			setCopied('Select and copy it by hand');
		}
		setTimeout(() => setCopied(''), 3_000);
	};
	return html`<button type="button" class="plain" onClick=${copy} aria-label=${copied || label === what ? undefined : `${label} ${what}`}>
		${copied || label}
	</button>`;
}

/** Secret is a text to be copied, such as a password that is shown this once. */
export function Secret({ name, text, note }) {
	return html`<div class="secret">
		<dt>${name} ${note && html`<small>${note}</small>`}</dt>
		<dd><code>${text}</code> <${Copy} text=${text} what=${name} /></dd>
	</div>`;
}

/** Title is the heading of a page. It gets the focus when the page is opened. */
export function Title({ children, text, back }) {
	const element = useRef(null);
	useEffect(() => {
		document.title = `${text ?? children} · Gatehouse`;
	}, [text, children]);
	useEffect(() => element.current.focus({ preventScroll: true }), []);
	return html`${back && html`<a class="back" href=${back.href}>${back.text}</a>`}
		<h1 ref=${element} tabindex="-1">${children}</h1>`;
}
