// Journal: who opened what, when, and how it ended; and every change.

import { useMemo } from '../vendor/hooks.js';
import { Book, address } from './book.js';
import { live } from './live.js';
import { Load, Pairs, inZone, momentOf, stationOptions } from './parts.js';
import { Action, Empty, Field, Problem, Select, Title, Wait, html, useEffect, useRedraw, useState, useTopic } from './ui.js';
import { entries, topics } from './words.js';

/** filterOf returns what to ask the gateway for, from the query of the page's address. */
function filterOf(query, zone) {
	const filter = new URLSearchParams();
	for (const kind of topics[query.get('show') ?? '']?.[1] ?? []) filter.append('kind', kind);
	for (const key of ['station', 'account']) if (query.get(key)) filter.set(key, query.get(key));
	const midnight = (key, days) => momentOf(zone, new Date(Date.parse(query.get(key)) + days * 86_400_000).toISOString().slice(0, 16));
	if (query.get('from')) filter.set('since', midnight('from', 0));
	if (query.get('to')) filter.set('until', midnight('to', 1));
	return String(filter);
}

function Entry({ entry: { record, tone, text, all }, zone }) {
	const [open, setOpen] = useState(false);
	const known = { bad: 'Alarm: ', warn: 'Notice: ' }[tone];
	return html`<li class=${'entry tinted ' + tone}>
		<details onToggle=${({ target }) => setOpen(target.open)}>
			<summary>
				<time datetime=${record.time}>${inZone(zone, record.time, 'time')}${!record.clockTrusted && '?'}</time>
				<span>${known && html`<span class="unseen">${known}</span>`}${text}</span>
			</summary>
			${open && all.map(({ time, clockTrusted, ...facts }) => html`<${Pairs} key=${facts.seq} of=${{ time: inZone(zone, time), ...facts }} />`)}
		</details>
	</li>`;
}

/** Days are entries, newest first, under their days. */
function Days({ list, zone }) {
	const days = new Map();
	for (const entry of list) {
		const day = inZone(zone, entry.record.time, 'day');
		if (!days.has(day)) days.set(day, []);
		days.get(day).push(entry);
	}
	return [...days].map(([day, some]) => html`<section key=${day} aria-label=${day}>
		<h2>${day}</h2>
		<ol class="card list">${some.map((entry) => html`<${Entry} key=${entry.record.seq} entry=${entry} zone=${zone} />`)}</ol>
	</section>`);
}

const go = (fields) => (location.hash = '#/journal?' + new URLSearchParams(fields.filter(([, value]) => value)));

function Filter({ query, accounts }) {
	const set = [...query.keys()].length;
	const field = (name) => ({ name, value: query.get(name) ?? '' });
	return html`<details open=${set > 0}>
		<summary>Filter${set > 0 && ` (${set} set)`}</summary>
		<form class="filters" onChange=${(event) => go([...new FormData(event.currentTarget)])} onSubmit=${(event) => event.preventDefault()}>
			<${Select} label="Show" ...${field('show')} options=${Object.entries(topics).map(([key, [label]]) => [key, label])} />
			<${Select} label="Station" ...${field('station')} options=${[['', 'All stations'], ...stationOptions()]} />
			<${Select} label="Person" ...${field('account')} options=${[['', 'Everybody'], ...accounts.map(({ email }) => [email, email])]} />
			<${Field} label="From" type="date" ...${field('from')} />
			<${Field} label="To" type="date" ...${field('to')} />
		</form>
		${set > 0 && html`<button type="button" onClick=${() => go([])}>Show everything</button>`}
	</details>`;
}

function List({ query, timeZone: zone, accounts }) {
	useTopic('list');
	const redraw = useRedraw();
	const filter = filterOf(query, zone);
	const book = useMemo(() => new Book(filter, !query.get('to'), redraw), [filter]);
	useEffect(() => {
		book.start();
		return () => book.stop();
	}, [book]);
	const list = useMemo(() => entries(book.records), [book, book.records.length, book.last, live.stations.size]);
	return html`<${Filter} query=${query} accounts=${accounts} />
		<${Problem} text=${book.error?.message} />
		<p><small>Times are those of ${zone || 'this device'}.${list.some(({ record }) => !record.clockTrusted) && ' Where a “?” stands, the gateway could not be sure of its clock.'}</small></p>
		${!book.whole && !book.error && html`<${Wait} />`}
		${book.whole && list.length === 0 && html`<${Empty} title="No record matches." />`}
		<${Days} list=${list} zone=${zone} />
		<div class="actions">
			${book.older && html`<${Action} act=${() => book.fetchOlder()}>Show older records<//>`}
			<a class="button" download="journal.csv" href=${address(filter, { csv: true })}>Save as CSV</a>
			<a class="button" download="journal.jsonl" href=${address(filter, {})}>Save as JSON</a>
		</div>`;
}

export default function Journal({ query }) {
	return html`<${Title}>Journal<//>
		<${Load} paths=${['status', 'accounts']}>${(value) => html`<${List} query=${query} ...${value} />`}<//>`;
}
