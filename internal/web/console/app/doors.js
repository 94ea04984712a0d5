// Doors: every station and lock that the account may use.

import { live } from './live.js';
import { LockRow, nameOf } from './lock.js';
import { session } from './session.js';
import { Age, Badge, Empty, Title, html, useLink, useRef, useState, useTopic } from './ui.js';

const order = new Intl.Collator([], { numeric: true, sensitivity: 'base' });

/** What the list can be narrowed to. */
const views = {
	all: ['All', () => true],
	attention: ['Need a look', (station) => station.status !== 'online' || station.locks.some((lock) => lock.status === 'jammed' || lock.door === 'open')],
	open: ['Unlocked or open', (station) => station.locks.some((lock) => lock.status === 'unlocked' || lock.door === 'open')],
	offline: ['Offline', (station) => station.status !== 'online'],
};

function matches(station, text) {
	return `${nameOf(station)} ${station.stationId}`.toLocaleLowerCase().includes(text.trim().toLocaleLowerCase());
}

/** Station draws itself again when its own state changes, and no other does. */
function Station({ id }) {
	useTopic(id);
	const current = useLink() === 'live';
	const station = live.stations.get(id);
	if (!station) return null;
	const online = station.status === 'online';
	const name = nameOf(station);
	return html`<article class="station card" aria-labelledby=${'s' + id}>
		<div class="head">
			<h2 id=${'s' + id}>${session.account.admin ? html`<a href=${'#/station/' + id}>${name}</a>` : name}</h2>
			<p class="facts">
				<${Badge} tone=${!current ? 'plain' : online ? 'ok' : 'bad'}>${online ? 'Online' : 'Offline'}<//>
				${station.lastConnection ? html`<${Age} at=${station.lastConnection} />` : html`<span class="age">never connected</span>`}
				${station.batteryVoltage != null && html`<span class="battery">${station.batteryVoltage.toFixed(2)} V</span>`}
			</p>
		</div>
		<ul class="locks">
			${station.locks.map((lock) => html`<${LockRow} key=${lock.lockId} station=${station} lock=${lock} />`)}
		</ul>
	</article>`;
}

function Nothing() {
	if (!session.account.admin) {
		return html`<${Empty} title="You may not open any door right now.">
			<p>An administrator decides who may open which door, and when. This page shows a door as soon as you may.</p>
		<//>`;
	}
	return html`<${Empty} title="There is no station yet.">
		<p>A station is the hardware at a door. Add the first one: it takes about a minute.</p>
		<p><a class="button primary" href="#/add">Add a station</a></p>
	<//>`;
}

export default function Doors() {
	useTopic('list');
	const link = useLink();
	const [text, setText] = useState('');
	const [view, setView] = useState('all');
	const all = [...live.stations.values()].sort((a, b) => order.compare(nameOf(a), nameOf(b)) || a.stationId - b.stationId);
	const chosen = views[view][1];
	const shown = new Set(all.filter((station) => chosen(station) && matches(station, text)));
	// The same node again has nothing drawn again; hiding is quicker than drawing anew.
	const nodes = useRef(new Map()).current;
	const node = (id) => nodes.get(id) ?? nodes.set(id, html`<${Station} id=${id} />`).get(id);
	if (all.length === 0) {
		return html`<${Title}>Doors<//>${link === 'connecting' ? html`<p class="wait">Loading the doors…</p>` : html`<${Nothing} />`}`;
	}
	return html`<div class="top">
			<${Title}>Doors<//>
			${session.account.admin && html`<a class="button" href="#/add">Add a station</a>`}
		</div>
		${all.length > 3 && html`<form class="filter" role="search" onSubmit=${(event) => event.preventDefault()}>
			<input type="search" aria-label="Find a door by name or number" placeholder="Name or number" value=${text}
				onInput=${(event) => setText(event.target.value)} />
			<select aria-label="Show" value=${view} onChange=${(event) => setView(event.target.value)}>
				${Object.entries(views).map(([key, [label, test]]) => html`<option key=${key} value=${key}>${label} (${all.filter(test).length})</option>`)}
			</select>
		</form>`}
		<div class="stations">
			${all.map((station) => html`<div key=${station.stationId} hidden=${!shown.has(station)}>${node(station.stationId)}</div>`)}
		</div>
		${shown.size === 0 && html`<${Empty} title="No door matches."><p>Change the words or choose “All”.</p><//>`}`;
}
