// Parts that the pages of administrators share, and times in the time zone of the site.

import { Dialog, Form, Problem, announce, html, useEffect, useLink, useLoad, useRef, useTask } from './ui.js';

/** useFresh is useLoad, and loads again when the connection is back. */
export function useFresh(load) {
	const link = useLink();
	const loaded = useLoad(load);
	const before = useRef(link);
	useEffect(() => {
		if (link === 'live' && before.current !== link) loaded.again();
		before.current = link;
	}, [link]);
	return loaded;
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

/** Confirm asks before act is called, and has a screen reader say done after it. */
export function Confirm({ title, submit, danger, act, done, close, children }) {
	const confirmed = async (fields) => {
		await act(fields);
		announce(done);
		close();
	};
	return html`<${Dialog} title=${title} onClose=${close}>
		<${Form} submit=${submit} danger=${danger} cancel=${close} onSubmit=${confirmed}>${children}<//>
	<//>`;
}

/** Rows are things with a button each that ends them. */
export function Rows({ of, words, end, label, name, children }) {
	const [run, , error] = useTask(end);
	return html`<ul class="list">
			${of.map((one) => html`<li key=${name(one)} class="row">
				<span>${words(one)}</span>
				<span class="buttons">${children?.(one)}<button type="button" class="plain" onClick=${() => run(one)} aria-label=${`${label} ${name(one)}`}>${label}</button></span>
			</li>`)}
		</ul>
		<${Problem} text=${error} />`;
}

/** stationName returns the name of a station of a Map by id. */
export function stationName(id, stations) {
	return stations.get(id)?.name || `Station ${id}`;
}

/** choices returns the options for stations, in order of their ids. */
export function choices(stations) {
	return [...stations].sort((a, b) => a.stationId - b.stationId).map(({ stationId, name }) => html`<option key=${stationId} value=${stationId}>${name || 'Station ' + stationId}</option>`);
}

const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const styles = {
	day: { weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' },
	time: { ...clock, second: '2-digit' },
	moment: { day: 'numeric', month: 'short', year: 'numeric', ...clock },
	input: { year: 'numeric', month: '2-digit', day: '2-digit', ...clock },
};
const formats = new Map();

/** formatOf falls back to this device's zone where the browser does not know the zone. */
function formatOf(zone, style) {
	const key = zone + style;
	if (!formats.has(key)) {
		const language = style === 'input' ? 'en' : undefined;
		try {
			formats.set(key, new Intl.DateTimeFormat(language, { ...styles[style], timeZone: zone || undefined }));
		} catch {
			formats.set(key, new Intl.DateTimeFormat(language, styles[style]));
		}
	}
	return formats.get(key);
}

/** inZone words a moment in a time zone, "" being this device's: as a day, a time, or a moment with both. */
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
