// Doors: every station and lock that the account may use.

import { live, stationName } from './live.js';
import { Facts, Locks } from './lock.js';
import { session } from './session.js';
import { Empty, Options, Title, Wait, html, useLink, useRef, useState, useTopic } from './ui.js';

const order = new Intl.Collator([], { numeric: true, sensitivity: 'base' });

/** What the list can be narrowed to. */
const views = {
	all: ['All', () => true],
	attention: ['Need a look', ({ status, locks }) => status !== 'online' || locks.some((lock) => lock.status === 'jammed' || lock.door === 'open')],
	open: ['Unlocked or open', ({ locks }) => locks.some((lock) => lock.status === 'unlocked' || lock.door === 'open')],
	offline: ['Offline', ({ status }) => status !== 'online'],
};

/** Station draws itself again when its own state changes, and no other does. */
function Station({ id }) {
	useTopic(id);
	const station = live.stations.get(id);
	if (!station) return null;
	const name = stationName(id);
	return html`<article class="card" aria-labelledby=${'s' + id}>
		<h2 id=${'s' + id}>${session.account.admin ? html`<a href=${'#/station/' + id}>${name}</a>` : name}</h2>
		<${Facts} station=${station}>${station.batteryVoltage != null && html`<small>${station.batteryVoltage.toFixed(2)} V</small>`}<//>
		<${Locks} station=${station} />
	</article>`;
}

function Nothing() {
	if (!session.account.admin) {
		return html`<${Empty} title="You may not open any door right now."><p>An administrator decides who may open which door, and when.</p><//>`;
	}
	return html`<${Empty} title="There is no station yet.">
		<p>A station is the hardware at a door. To add one takes about a minute.</p>
		<a class="button primary" href="#/add">Add a station</a>
	<//>`;
}

export default function Doors() {
	useTopic('list');
	const link = useLink();
	const [text, setText] = useState('');
	const [view, setView] = useState('all');
	const all = [...live.stations.keys()].sort((a, b) => order.compare(stationName(a), stationName(b)) || a - b);
	const count = (test) => all.filter((id) => test(live.stations.get(id)));
	const words = text.trim().toLocaleLowerCase();
	const shown = new Set(count(views[view][1]).filter((id) => `${stationName(id)} ${id}`.toLocaleLowerCase().includes(words)));
	// The same node again has nothing drawn again; hiding is quicker than drawing anew.
	const nodes = useRef(new Map()).current;
	const node = (id) => nodes.get(id) ?? nodes.set(id, html`<${Station} id=${id} />`).get(id);
	if (all.length === 0) return html`<${Title}>Doors<//>${link === 'connecting' ? html`<${Wait} />` : html`<${Nothing} />`}`;
	return html`<div class="top">
			<${Title}>Doors<//>
			${session.account.admin && html`<a class="button" href="#/add">Add a station</a>`}
		</div>
		${all.length > 3 && html`<form class="filter" role="search" onSubmit=${(event) => event.preventDefault()}>
			<input type="search" aria-label="Find a door by name or number" placeholder="Name or number" value=${text} onInput=${({ target }) => setText(target.value)} />
			<select aria-label="Show" value=${view} onChange=${({ target }) => setView(target.value)}>
				<${Options} of=${Object.entries(views).map(([key, [label, test]]) => [key, `${label} (${count(test).length})`])} />
			</select>
		</form>`}
		<div class="stations">
			${all.map((id) => html`<div key=${id} class="station" hidden=${!shown.has(id)}>${node(id)}</div>`)}
		</div>
		${shown.size === 0 && html`<${Empty} title="No door matches." />`}`;
}
