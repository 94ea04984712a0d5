// What the pages are built of.

import { h, render } from '../vendor/preact.js';
import { useEffect, useId, useLayoutEffect, useReducer, useRef, useState } from '../vendor/hooks.js';
import htm from '../vendor/htm.js';
import { sentence } from './api.js';
import { everySecond, live, subscribe } from './live.js';

export const html = htm.bind(h);
export { render, useEffect, useLayoutEffect, useRef, useState };

export function useRedraw() {
	return useReducer((n) => n + 1, 0)[1];
}

export function useTopic(topic) {
	const redraw = useRedraw();
	useLayoutEffect(() => subscribe(topic, redraw), [topic]);
}

/** useLink returns "connecting", "live" or "lost": whether what is shown is current. */
export function useLink() {
	useTopic('link');
	return live.link;
}

export function announce(text) {
	const said = document.getElementById('said');
	said.textContent = said.textContent === text ? text + '\u00a0' : text;
}

/** useTask returns [run, busy, error]: run does nothing while busy; error is a sentence, or ''. */
function useTask(work) {
	const [state, setState] = useState({ busy: false, error: '' });
	const mine = useRef({}).current;
	useEffect(() => () => void (mine.gone = true), []);
	const run = async (...args) => {
		if (mine.busy) return;
		mine.busy = true;
		setState({ busy: true, error: '' });
		const error = await Promise.resolve(work(...args)).then(() => '', (failed) => sentence(failed.message));
		mine.busy = false;
		if (!mine.gone) setState({ busy: false, error });
	};
	return [run, state.busy, state.error];
}

/** useLoad returns { value, error, again }; a former value stays while it loads again. */
export function useLoad(load, dependencies = []) {
	const [state, setState] = useState({ error: '' });
	const current = useRef(null);
	const again = () => {
		current.current?.abort();
		const { signal } = (current.current = new AbortController());
		const set = (change) => signal.aborted || setState((before) => ({ ...before, ...change }));
		return load(signal).then(
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

/** clockTime returns a moment on this device's clock: 14:02, or with the day if that is another. */
export function clockTime(moment, seconds = false) {
	const date = new Date(moment);
	const time = date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: seconds ? '2-digit' : undefined });
	const today = new Date(live.now()).toDateString() === date.toDateString();
	return today ? time : `${date.toLocaleDateString([], { day: 'numeric', month: 'short', year: 'numeric' })}, ${time}`;
}

/** ageText rounds up: nothing is shown younger than it is. While nothing is current, it is when that was last known. */
function ageText(moment) {
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
export function Age({ at, never }) {
	const element = useRef(null);
	useLayoutEffect(() => {
		const moment = Date.parse(at);
		const update = () => {
			const text = at ? ageText(moment) : never;
			if (element.current.textContent !== text) element.current.textContent = text;
		};
		update();
		ages.add(update);
		return () => ages.delete(update);
	}, [at]);
	return html`<small ref=${element}></small>`;
}

/** Field is a labelled input; the other properties are those of the input, or of as. */
export function Field({ label, hint, as = 'input', children, ...input }) {
	const id = useId();
	return html`<div class="field">
		<label for=${id}>${label}</label>
		${h(as, { id, 'aria-describedby': hint && id + 'hint', ...input }, children)}
		${hint && html`<small id=${id + 'hint'}>${hint}</small>`}
	</div>`;
}

/** Options are pairs of a value and its text. */
export function Options({ of }) {
	return of.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`);
}

export function Select({ options, ...field }) {
	return html`<${Field} as="select" ...${field}><${Options} of=${options} /><//>`;
}

export function Check({ children, ...input }) {
	return html`<label class="check"><input type="checkbox" ...${input} /> <span>${children}</span></label>`;
}

/** Problem shows an error, which a screen reader says at once. */
export function Problem({ text, again }) {
	return html`<div role="alert" class="problem" hidden=${!text}>
		${text}${text && again && html` <button type="button" class="plain" onClick=${again}>Try again</button>`}
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

/** Badge is a word of state: tone is ok, warn, bad or ''. */
export function Badge({ tone, children }) {
	return html`<span class=${'badge ' + tone}>${children}</span>`;
}

/** Action is a button for what takes time, with its error. */
export function Action({ act, children, ...button }) {
	const [run, busy, error] = useTask(act);
	return html`<button type="button" ...${button} onClick=${() => run()} aria-disabled=${busy}>${busy ? 'One moment…' : children}</button><${Problem} text=${error} />`;
}

/** Form calls onSubmit with the fields by name, and as FormData, and shows its error. */
export function Form({ onSubmit, submit, danger, cancel, children }) {
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
			<button class=${danger ? 'danger' : 'primary'} aria-disabled=${busy}>${busy ? 'One moment…' : submit}</button>
			${cancel && html`<button type="button" onClick=${cancel}>Cancel</button>`}
		</div>
	</form>`;
}

/** Title is the heading of a page, or of a step. It gets the focus when it appears. */
export function Title({ back, level = 'h1', children }) {
	const element = useRef(null);
	const text = [children].flat().join('');
	useEffect(() => {
		if (level === 'h1') document.title = `${text} · Gatehouse`;
	}, [text]);
	useEffect(() => element.current.focus({ preventScroll: level === 'h1' }), []);
	return html`${back && html`<a class="back" href=${'#/' + back.toLowerCase()}>‹ ${back}</a>`}
		${h(level, { ref: element, tabindex: -1 }, text)}`;
}
