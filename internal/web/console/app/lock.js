// A station and its locks: what is known of them, and the button that opens one.

import { get, newKey, post } from './api.js';
import { live, stationName } from './live.js';
import { session } from './session.js';
import { Age, Badge, announce, html, useEffect, useLink, useRedraw } from './ui.js';

/** What one unlock may take, in milliseconds: longer than a command lives by default. */
const patience = 7_000;
/** The pauses before asking for the result. */
const asks = [150, 350, 500, 1_000, 2_000];
/** How long after a press another one does nothing: fingers tremble. */
const deafFor = 1_500;
/** How long the end of an unlock stays on its button, and the reason of a bad one below it. */
const shownFor = 6_000;
const reasonFor = 60_000;

const ends = {
	done: ['ok', 'Unlocked', ''],
	acknowledged: ['ok', 'Sent', 'The station has the command. It has not said that the lock opened.'],
	refused: ['bad', 'Refused', 'The station refused.'],
	failed: ['bad', 'Failed', 'The station could not unlock.'],
	offline: ['bad', 'Not sent', 'The station is not connected. Nothing was sent.'],
	expired: ['bad', 'No answer', 'The station did not answer in time. Nothing will open later.'],
};

/** Unlocks under way or just ended, by station and lock: they outlive the page that shows them. */
const unlocks = new Map();
const listeners = new Set();

function nameOf(station, lock, where = '') {
	const name = station.locks.length > 1 ? `Lock ${lock.lockId.replace('lock-', '')}` : '';
	return [where, name].filter(Boolean).join(', ');
}

async function result(id) {
	for (const wait of asks) {
		await new Promise((resolve) => setTimeout(resolve, wait));
		const { outcome } = await get(`/local/v1/commands/${id}`);
		if (outcome !== 'acknowledged') return outcome;
	}
	return 'acknowledged';
}

async function open(station, lock, acknowledged) {
	const of = session.account.admin ? `/admin/v1/stations/${station.stationId}` : `/local/v1/stations/${encodeURIComponent(station.token)}`;
	const path = `${of}/locks/${lock.lockId}/unlock?wait=acknowledged`;
	const { outcome, commandId } = await post(path, undefined, { headers: { 'Idempotency-Key': newKey() }, patience });
	if (outcome !== 'acknowledged') return outcome;
	acknowledged();
	return result(commandId).catch(() => outcome);
}

/** unlock does nothing while one is under way, and never sends a command again by itself. */
async function unlock(key, station, lock) {
	if (unlocks.get(key)?.busy || live.link !== 'live') return;
	const where = nameOf(station, lock, stationName(station.stationId));
	const turn = {};
	const show = (state) => {
		if (state) unlocks.set(key, { turn, ...state });
		else unlocks.delete(key);
		for (const listener of listeners) listener(key);
	};
	const later = (wait, state) => setTimeout(() => unlocks.get(key)?.turn === turn && show(state), wait);
	show({ busy: true, text: 'Sending…' });
	announce(`${where}: sending.`);
	const began = Date.now();
	let end;
	try {
		const outcome = await open(station, lock, () => {
			show({ busy: true, text: 'Sent…' });
			announce(`${where}: the station has the command.`);
		});
		end = ends[outcome] ?? ['bad', 'Unknown', `The outcome is ${outcome}.`];
	} catch (error) {
		end = error.status ? ['bad', 'Not sent', error.message] : ['bad', 'Not known', `${error.message} Whether it opened is not known: look at the door.`];
	}
	const [tone, text, why] = end;
	announce(`${where}: ${text}. ${why}`);
	show({ tone, text, why, busy: true });
	later(Math.max(0, began + deafFor - Date.now()), { tone, text, why });
	later(shownFor, tone === 'bad' && { tone, why });
	later(reasonFor, null);
}

function useUnlock(key) {
	const redraw = useRedraw();
	useEffect(() => {
		const listener = (changed) => changed === key && redraw();
		listeners.add(listener);
		return () => listeners.delete(listener);
	}, [key]);
	return unlocks.get(key);
}

const lockStates = { locked: ['', 'Locked'], unlocked: ['warn', 'Unlocked'], jammed: ['bad', 'Jammed'], unknown: ['', 'State unknown'] };
const doorStates = { open: ['warn', 'Door open'], closed: ['', 'Door closed'], unknown: ['', 'Door unknown'] };

/** State is a word about a thing; its colour stands only while that is current. */
function State({ of: [tone, text], at, never }) {
	return html`<span><${Badge} tone=${useLink() === 'live' ? tone : ''}>${text}<//> <${Age} at=${at} never=${never} /></span>`;
}

/** Facts says whether a station is there, and what children add. */
export function Facts({ station, children }) {
	const state = station.status === 'online' ? ['ok', 'Online'] : ['bad', 'Offline'];
	return html`<p class="facts"><${State} of=${state} at=${station.lastConnection} never="never connected" /> ${children}</p>`;
}

function Lock({ station, lock }) {
	const key = `${station.stationId}/${lock.lockId}`;
	const state = useUnlock(key);
	const current = useLink() === 'live';
	const reachable = current && station.status === 'online';
	const name = nameOf(station, lock);
	const label = state?.text ?? (reachable ? 'Unlock' : current ? 'Offline' : 'Not connected');
	return html`<li class="lock">
		<div class="facts">
			${name && html`<b>${name}</b>`}
			<${State} of=${lockStates[lock.status]} at=${lock.lastUpdated} never="not reported yet" />
			${lock.door && html`<${State} of=${doorStates[lock.door]} at=${lock.doorSince} never="" />`}
		</div>
		<button type="button" class=${'primary unlock ' + (state?.text ? (state.tone ?? '') : '')} aria-disabled=${!reachable || !!state?.busy}
			aria-label=${`${label}: ${nameOf(station, lock, stationName(station.stationId))}`}
			onClick=${() => reachable && unlock(key, station, lock)}>${label}</button>
		${state?.why && html`<p class=${'why ' + state.tone}>${state.why}</p>`}
	</li>`;
}

export function Locks({ station }) {
	return html`<ul class="list">${station.locks.map((lock) => html`<${Lock} key=${lock.lockId} station=${station} lock=${lock} />`)}</ul>`;
}
