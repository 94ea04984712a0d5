// Doors: every station and lock that the account may use, what is known of them, and the
// button that opens one.

import { get, post, sentence, url } from './api.js';
import { live, publish, stationName } from './live.js';
import { counts } from './press.js';
import { session } from './session.js';
import { Age, Badge, Empty, Name, Title, Wait, announce, clockTime, html, useLink, useRef, useState, useTopic } from './ui.js';

// What one unlock may take, in milliseconds: longer than a command lives by default.
const patience = 7_000;
const asks = [150, 350, 500, 1_000, 2_000]; // the pauses before asking for the result
// How long the end of an unlock stays on its button, which does nothing meanwhile: fingers
// tremble. What is not good about it stays below for longer.
const shownFor = 3_000;
const reasonFor = 60_000;

// How an unlock ended: a tone, a word for it, and why.
export const outcomes = {
	done: ['ok', 'Unlocked', ''],
	acknowledged: ['warn', 'Sent', 'Sent, not confirmed: look at the door.'],
	refused: ['bad', 'Refused', 'The station refused.'],
	failed: ['bad', 'Failed', 'The station could not unlock.'],
	offline: ['bad', 'Not sent', 'The station is offline. Nothing was sent.'],
	expired: ['bad', 'No answer', 'No answer in time. Nothing opens later.'],
	late: ['bad', 'Answered late', 'The station answered too late.'],
	unknown: ['bad', 'Not known', 'It may have opened: look at the door.'],
};

// Unlocks under way or just ended, by station and lock: they outlive the page that shows them.
const unlocks = new Map();

function nameOf(station, lock, where = '') {
	const name = station.locks.length > 1 ? `Lock ${lock.lockId.replace('lock-', '')}` : '';
	return [where, name].filter(Boolean).join(', ');
}

async function result(id) {
	for (const wait of asks) {
		await new Promise((resolve) => setTimeout(resolve, wait));
		const answer = await get(url`/local/v1/commands/${id}`);
		if (answer.outcome !== 'acknowledged') return answer;
	}
	return { outcome: 'acknowledged' };
}

async function open({ stationId, token }, { lockId }, acknowledged) {
	const of = session.account.admin ? url`stations/${stationId}` : url`/local/v1/stations/${token}`;
	const options = { headers: { 'Idempotency-Key': crypto.randomUUID() }, patience };
	const answer = await post(`${of}/locks/${lockId}/unlock?wait=acknowledged`, undefined, options);
	if (answer.outcome !== 'acknowledged') return answer;
	acknowledged();
	return result(answer.commandId).catch(() => answer);
}

// ended returns how an unlock ended, as outcomes has it; a message says more than the outcome.
function ended({ outcome, message }) {
	const [tone, text, why] = outcomes[outcome] ?? outcomes.unknown;
	return [tone, text, message ? sentence(message[0].toUpperCase() + message.slice(1)) : why];
}

// show returns a function that shows a state of an unlock, and one that does so later,
// unless another unlock of that lock has begun.
function shows(key) {
	const turn = {};
	const show = (state) => {
		unlocks.set(key, { turn, ...state });
		publish(key);
	};
	return [show, (wait, state) => setTimeout(() => unlocks.get(key).turn === turn && show(state), wait)];
}

// unlock does nothing while one is under way, and never sends a command again by itself.
async function unlock(key, station, lock) {
	if (unlocks.get(key)?.busy || live.link !== 'live') return;
	const where = nameOf(station, lock, stationName(station.stationId));
	const [show, later] = shows(key);
	show({ busy: true, text: 'Sending…' });
	announce(`${where}: sending.`);
	const sent = () => {
		show({ busy: true, text: 'Sent…' });
		announce(`${where}: the station has the command.`);
	};
	const failed = ({ status, message }) => ['bad', ...(status ? ['Not sent', message] : ['Not known', `${outcomes.unknown[2]} ${message}`])];
	const [tone, text, why] = await open(station, lock, sent).then(ended, failed);
	announce(`${where}: ${why.startsWith(text) ? '' : text + '. '}${why}`);
	show({ tone, text, why, busy: true });
	later(shownFor, { tone, why });
	later(reasonFor, {});
}

// miss says that a press does not count: the button has changed under the finger.
function miss(key) {
	const [show, later] = shows(key);
	const why = 'Nothing was sent. Press again.';
	announce(why);
	show({ tone: 'warn', why });
	later(reasonFor, {});
}

const tones = { online: 'ok', offline: 'bad', unlocked: 'warn', jammed: 'bad', open: 'warn' };

// State is a word about a thing; its colour stands only while that is current.
function State({ of = '', word }) {
	const text = of + word;
	return html`<${Badge} tone=${useLink() === 'live' && tones[word]}>${text[0].toUpperCase() + text.slice(1)}<//>`;
}

// A station or lock that is removed stays in the shown page, so that the ones below it do not move.
const gone = 'not available';

export function Facts({ station, removed, children }) {
	const opens = station.opensAgain; // set while the account may not use it
	const age = opens
		? html`<small>opens again ${clockTime(opens)}</small>`
		: html`<${Age} before="heard " at=${station.lastConnection} never="never connected" />`;
	return html`<p class="facts">
		<${State} word=${removed ? gone : opens ? 'closed' : station.status} /> ${!removed && age} ${children}
	</p>`;
}

// Lock is a row of one height, whatever it says: a button that opens a door stands still.
function Lock({ station, lock, removed }) {
	const key = `${station.stationId}/${lock.lockId}`;
	useTopic(key);
	const { busy, text, tone = '', why } = unlocks.get(key) ?? {};
	const current = useLink() === 'live';
	const reachable = current && !removed && station.status === 'online';
	const name = nameOf(station, lock);
	const label = text ?? (!current ? 'Not connected' : removed ? 'Not available' : reachable ? 'Unlock' : station.opensAgain ? 'Closed' : 'Offline');
	const press = (event) => {
		const good = counts(event);
		if (!reachable || busy) return;
		if (good) unlock(key, station, lock);
		else miss(key);
	};
	return html`<li class="lock">
		<div class="facts">
			${name && html`<b>${name}</b>`}
			<${State} word=${removed ? gone : lock.status} />
		</div>
		<button class=${'primary unlock ' + (text ? tone : '')} data-lock=${key} aria-disabled=${!reachable || !!busy}
			aria-label=${`${label}: ${nameOf(station, lock, stationName(station.stationId))}`}
			onClick=${press}>${label}</button>
		${why ? html`<p key="why" class=${'facts why ' + tone}><span>${why}</span></p>` : html`<p key="age" class="facts">
			<${Age} at=${lock.lastUpdated} never=${station.opensAgain ? '' : 'not reported yet'} />
			${lock.door && html`<${State} of="door " word=${lock.door} /> <${Age} at=${lock.doorSince} never="" />`}
		</p>`}
	</li>`;
}

// Locks shows the locks of a station, or those of them that are named; it may have lost some.
export function Locks({ station, names = station.locks.map(({ lockId }) => lockId), removed }) {
	const there = new Map(station.locks.map((lock) => [lock.lockId, lock]));
	return html`<ul class="list locks">${names.map((lockId) => html`<${Lock} key=${lockId} station=${station}
		lock=${there.get(lockId) ?? { lockId, status: 'unknown' }} removed=${removed || !there.has(lockId)} />`)}</ul>`;
}

const order = new Intl.Collator([], { numeric: true, sensitivity: 'base' });

// Station draws itself again when its own state changes, and no other does. One that is gone stays as it was.
function Station({ id, names }) {
	useTopic(id);
	const known = useRef(null);
	const now = live.stations.get(id);
	if (now) known.current = now;
	const station = known.current;
	const title = `s${id}-${names[0]}`;
	const name = html`<${Name} text=${station.name || stationName(id)} />`;
	return html`<article class="card" aria-labelledby=${title}>
		<h2 id=${title}>${session.account.admin ? html`<a href=${'#/station/' + id}>${name}</a>` : name}</h2>
		<${Facts} station=${station} removed=${!now}>${station.batteryVoltage != null && html`<small>${station.batteryVoltage.toFixed(2)} V</small>`}<//>
		<${Locks} station=${station} names=${names} removed=${!now} />
	</article>`;
}

function Nothing() {
	if (!session.account.admin) {
		return html`<${Empty} title="You may not open any door right now."><p>An administrator decides who may open which door, and when.</p><//>`;
	}
	return html`<${Empty} title="There is no station yet.">
		<p>A station is the hardware at a door. To add one takes about a minute.</p>
		<a class="button primary" href="#/station/add">Add a station</a>
	<//>`;
}

function wordsOf(id) {
	const { status, locks } = live.stations.get(id);
	return [stationName(id), id, status, ...locks.map((lock) => `${lock.status} door ${lock.door}`)].join(' ').toLocaleLowerCase();
}

const byName = (a, b) => order.compare(stationName(a), stationName(b)) || a - b;

// extend adds to a list the locks that it lacks, by station and in the order of names, at its
// end: nothing that stands there moves. Those whose station has the words are shown.
function extend(list, words) {
	const there = new Set(list.flatMap(({ id, names }) => names.map((name) => id + name)));
	for (const id of [...live.stations.keys()].sort(byName)) {
		const names = live.stations.get(id).locks.map(({ lockId }) => lockId).filter((name) => !there.has(id + name));
		if (names.length > 0) list.push({ id, names, shown: wordsOf(id).includes(words) });
	}
}

// Doors keeps its order while it is shown. Only a search sorts it anew.
export default function Doors() {
	useTopic('list');
	const link = useLink();
	const [text, setText] = useState('');
	const list = useRef([]);
	const many = useRef(false);
	// The same node again has nothing drawn again; hiding is quicker than drawing anew.
	const nodes = useRef(new Map()).current;
	const node = (key, { id, names }) => nodes.get(key) ?? nodes.set(key, html`<${Station} id=${id} names=${names} />`).get(key);
	const find = ({ target }) => {
		list.current = [];
		setText(target.value);
	};
	if (live.stations.size === 0) {
		list.current = [];
		return html`<${Title}>Doors<//>${link === 'connecting' ? html`<${Wait} />` : html`<${Nothing} />`}`;
	}
	if (list.current.length === 0) many.current = live.stations.size > 3;
	extend(list.current, text.trim().toLocaleLowerCase());
	return html`<div class="top">
			<${Title}>Doors<//>
			${session.account.admin && html`<a class="button" href="#/station/add">Add a station</a>`}
		</div>
		${many.current && html`<div class="field" role="search">
			<input type="search" autocomplete="off" aria-label="Find a door" placeholder="Name, number or state" value=${text} onInput=${find} />
		</div>`}
		<div class="stations">
			${list.current.map((block) => [`${block.id} ${block.names}`, block]).map(([key, block]) => html`<div key=${key} class="station" hidden=${!block.shown}>${node(key, block)}</div>`)}
		</div>
		${!list.current.some(({ shown }) => shown) && html`<${Empty} title="No door matches." />`}`;
}
