// Journal: who opened what, when, and how it ended; and every change.

import { useMemo } from '../vendor/hooks.js';
import { get } from './api.js';
import { Book, address } from './book.js';
import { live } from './live.js';
import { Pairs, choices, inZone, momentOf, useFresh } from './parts.js';
import { Badge, Empty, Field, Problem, Title, html, useEffect, useRedraw, useState, useTask, useTopic } from './ui.js';
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

/** useBook follows the records of a filter. */
function useBook(filter, follow) {
	const redraw = useRedraw();
	const book = useMemo(() => new Book(filter, follow, redraw), [filter]);
	useEffect(() => {
		book.start();
		return () => book.stop();
	}, [book]);
	return book;
}

function Entry({ entry: { record, tone, text, all }, zone }) {
	const [open, setOpen] = useState(false);
	const known = { bad: 'Alarm: ', warn: 'Notice: ' }[tone];
	return html`<li class=${'entry ' + tone}>
		<details onToggle=${(event) => setOpen(event.target.open)}>
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
	const days = Map.groupBy(list, ({ record }) => inZone(zone, record.time, 'day'));
	return [...days].map(
		([day, some]) => html`<section key=${day} class="day" aria-label=${day}>
			<h2>${day}</h2>
			<ol class="card">${some.map((entry) => html`<${Entry} key=${entry.record.seq} entry=${entry} zone=${zone} />`)}</ol>
		</section>`,
	);
}

const go = (fields) => (location.hash = '#/journal?' + new URLSearchParams(fields.filter(([, value]) => value)));

function Filter({ query, accounts, zone }) {
	const set = [...query.keys()].length;
	return html`<details class="filters more" open=${set > 0}>
		<summary>Filter${set > 0 && html` <${Badge}>${set} set<//>`}</summary>
		<form onChange=${(event) => go([...new FormData(event.currentTarget)])} onSubmit=${(event) => event.preventDefault()}>
			<${Field} label="Show" as="select" name="show" value=${query.get('show') ?? ''}>
				${Object.entries(topics).map(([key, [label]]) => html`<option key=${key} value=${key}>${label}</option>`)}
			<//>
			<${Field} label="Station" as="select" name="station" value=${query.get('station') ?? ''}>
				<option value="">All stations</option>${choices(live.stations.values())}
			<//>
			<${Field} label="Person" as="select" name="account" value=${query.get('account') ?? ''}>
				<option value="">Everybody</option>${accounts.map(({ email }) => html`<option key=${email} value=${email}>${email}</option>`)}
			<//>
			<${Field} label="From" type="date" name="from" value=${query.get('from') ?? ''} />
			<${Field} label="To" type="date" name="to" value=${query.get('to') ?? ''} />
		</form>
		${set > 0 && html`<button type="button" onClick=${() => go([])}>Show everything</button>`}
	</details>`;
}

function List({ query, zone, accounts }) {
	useTopic('list');
	const filter = filterOf(query, zone);
	const book = useBook(filter, !query.get('to'));
	const [more, busy, error] = useTask(() => book.fetchOlder());
	const list = useMemo(() => entries(book.records, live.stations), [book, book.records.length, book.last, live.stations.size]);
	return html`<${Filter} query=${query} accounts=${accounts} zone=${zone} />
		<${Problem} text=${book.error?.message} />
		<p class="soft">Times are those of ${zone || 'this device'}.${list.some(({ record }) => !record.clockTrusted) && ' Where a “?” stands, the gateway could not be sure of its clock.'}</p>
		${!book.whole && !book.error && html`<p class="wait">Loading the journal…</p>`}
		${book.whole && list.length === 0 && html`<${Empty} title="No record matches."><p>Change the filter, or show everything.</p><//>`}
		<${Days} list=${list} zone=${zone} />
		<${Problem} text=${error} />
		<div class="actions">
			${book.older && html`<button type="button" onClick=${more} aria-disabled=${busy}>${busy ? 'Loading…' : 'Show older records'}</button>`}
			<a class="button" download="journal.csv" href=${address(filter, { csv: true })}>Save as CSV</a>
			<a class="button" download="journal.jsonl" href=${address(filter, {})}>Save as JSON</a>
		</div>`;
}

export default function Journal({ query }) {
	const { value, error, again } = useFresh(async (signal) => {
		const [status, people] = await Promise.all(['status', 'accounts'].map((one) => get('/admin/v1/' + one, { signal })));
		return { zone: status.timeZone, accounts: people.accounts };
	});
	return html`<${Title}>Journal<//>
		<${Problem} text=${error} again=${again} />
		${value ? html`<${List} query=${query} ...${value} />` : !error && html`<p class="wait">Loading…</p>`}`;
}
