// Doors: every station and lock that the account may use, what is known of them, and the
// button that opens one.

import { get, post, url } from './api.js';
import { live, publish, stationName } from './live.js';
import { session } from './session.js';
import { Age, Badge, Empty, Title, Wait, announce, clockTime, html, useLink, useRef, useState, useTopic } from './ui.js';

// What one unlock may take, in milliseconds: longer than a command lives by default.
const patience = 7_000;
const asks = [150, 350, 500, 1_000, 2_000]; // the pauses before asking for the result
// How long the end of an unlock stays on its button, which does nothing meanwhile: fingers
// tremble. The reason of a bad one stays below it for longer.
const shownFor = 3_000;
const reasonFor = 60_000;

// How an unlock ended: a tone, a word for it, and why.
export const outcomes = {
	done: ['ok', 'Unlocked', ''],
	acknowledged: ['ok', 'Sent', 'The station has the command. It has not said that the lock opened.'],
	refused: ['bad', 'Refused', 'The station refused.'],
	failed: ['bad', 'Failed', 'The station could not unlock.'],
	offline: ['bad', 'Not sent', 'The station is not connected. Nothing was sent.'],
	expired: ['bad', 'No answer', 'The station did not answer in time. Nothing will open later.'],
	late: ['bad', 'Answered late', 'The station answered too late.'],
	unknown: ['bad', 'Not known', 'Whether it opened is not known: look at the door.'],
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
		const { outcome } = await get(url`/local/v1/commands/${id}`);
		if (outcome !== 'acknowledged') return outcome;
	}
	return 'acknowledged';
}

async function open({ stationId, token }, { lockId }, acknowledged) {
	const of = session.account.admin ? url`stations/${stationId}` : url`/local/v1/stations/${token}`;
	const options = { headers: { 'Idempotency-Key': crypto.randomUUID() }, patience };
	const { outcome, commandId } = await post(`${of}/locks/${lockId}/unlock?wait=acknowledged`, undefined, options);
	if (outcome !== 'acknowledged') return outcome;
	acknowledged();
	return result(commandId).catch(() => outcome);
}

// unlock does nothing while one is under way, and never sends a command again by itself.
async function unlock(key, station, lock) {
	if (unlocks.get(key)?.busy || live.link !== 'live') return;
	const where = nameOf(station, lock, stationName(station.stationId));
	const turn = {};
	const show = (state) => {
		unlocks.set(key, { turn, ...state });
		publish(key);
	};
	const later = (wait, state) => setTimeout(() => unlocks.get(key).turn === turn && show(state), wait);
	show({ busy: true, text: 'Sending…' });
	announce(`${where}: sending.`);
	const sent = () => {
		show({ busy: true, text: 'Sent…' });
		announce(`${where}: the station has the command.`);
	};
	const failed = ({ status, message }) => ['bad', ...(status ? ['Not sent', message] : ['Not known', `${message} ${outcomes.unknown[2]}`])];
	const [tone, text, why] = await open(station, lock, sent).then((outcome) => outcomes[outcome] ?? outcomes.unknown, failed);
	announce(`${where}: ${text}. ${why}`);
	show({ tone, text, why, busy: true });
	later(shownFor, tone === 'bad' && { tone, why });
	later(reasonFor, {});
}

const tones = { online: 'ok', offline: 'bad', unlocked: 'warn', jammed: 'bad', open: 'warn' };

// State is a word about a thing; its colour stands only while that is current.
function State({ of = '', word, at, never }) {
	const text = of + word;
	return html`<span><${Badge} tone=${useLink() === 'live' && tones[word]}>${text[0].toUpperCase() + text.slice(1)}<//> <${Age} at=${at} never=${never} /></span>`;
}

export function Facts({ station, children }) {
	const opens = station.opensAgain; // set while the account may not use it
	const state = opens
		? html`<span><${Badge}>Closed<//> <small>opens again ${clockTime(opens)}</small></span>`
		: html`<${State} word=${station.status} at=${station.lastConnection} never="never connected" />`;
	return html`<p class="facts">${state} ${children}</p>`;
}

function Lock({ station, lock }) {
	const key = `${station.stationId}/${lock.lockId}`;
	useTopic(key);
	const { busy, text, tone = '', why } = unlocks.get(key) ?? {};
	const current = useLink() === 'live';
	const reachable = current && station.status === 'online';
	const name = nameOf(station, lock);
	const label = text ?? (reachable ? 'Unlock' : !current ? 'Not connected' : station.opensAgain ? 'Closed' : 'Offline');
	return html`<li class="lock">
		<div class="facts">
			${name && html`<b>${name}</b>`}
			<${State} word=${lock.status} at=${lock.lastUpdated} never=${station.opensAgain ? '' : 'not reported yet'} />
			${lock.door && html`<${State} of="door " word=${lock.door} at=${lock.doorSince} never="" />`}
		</div>
		<button class=${'primary unlock ' + (text ? tone : '')} aria-disabled=${!reachable || !!busy}
			aria-label=${`${label}: ${nameOf(station, lock, stationName(station.stationId))}`}
			onClick=${() => reachable && unlock(key, station, lock)}>${label}</button>
		${why && html`<p class=${'why ' + tone}>${why}</p>`}
	</li>`;
}

export function Locks({ station }) {
	return html`<ul class="list">${station.locks.map((lock) => html`<${Lock} key=${lock.lockId} station=${station} lock=${lock} />`)}</ul>`;
}

const order = new Intl.Collator([], { numeric: true, sensitivity: 'base' });

// Station draws itself again when its own state changes, and no other does.
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
		<a class="button primary" href="#/station/add">Add a station</a>
	<//>`;
}

function wordsOf(id) {
	const { status, locks } = live.stations.get(id);
	return [stationName(id), id, status, ...locks.map((lock) => `${lock.status} door ${lock.door}`)].join(' ').toLocaleLowerCase();
}

export default function Doors() {
	useTopic('list');
	const link = useLink();
	const [text, setText] = useState('');
	const all = [...live.stations.keys()].sort((a, b) => order.compare(stationName(a), stationName(b)) || a - b);
	const words = text.trim().toLocaleLowerCase();
	const shown = new Set(all.filter((id) => wordsOf(id).includes(words)));
	// The same node again has nothing drawn again; hiding is quicker than drawing anew.
	const nodes = useRef(new Map()).current;
	const node = (id) => nodes.get(id) ?? nodes.set(id, html`<${Station} id=${id} />`).get(id);
	if (all.length === 0) return html`<${Title}>Doors<//>${link === 'connecting' ? html`<${Wait} />` : html`<${Nothing} />`}`;
	return html`<div class="top">
			<${Title}>Doors<//>
			${session.account.admin && html`<a class="button" href="#/station/add">Add a station</a>`}
		</div>
		${all.length > 3 && html`<div class="field" role="search">
			<input type="search" aria-label="Find a door" placeholder="Name, number or state" value=${text} onInput=${({ target }) => setText(target.value)} />
		</div>`}
		<div class="stations">
			${all.map((id) => html`<div key=${id} class="station" hidden=${!shown.has(id)}>${node(id)}</div>`)}
		</div>
		${shown.size === 0 && html`<${Empty} title="No door matches." />`}`;
}
