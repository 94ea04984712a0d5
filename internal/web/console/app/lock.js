// One lock: what is known of it, and the button that opens it.

import { get, newKey, post } from './api.js';
import { live } from './live.js';
import { session } from './session.js';
import { Age, Badge, announce, html, useEffect, useLink, useRedraw } from './ui.js';

/** What one unlock may take before the page stops waiting, in milliseconds: longer than a command lives by default, and no longer than people stand before a door. */
const patience = 7_000;
/** How long after the acknowledgement the page asks for the result, each time in milliseconds. */
const asks = [150, 350, 500, 1_000, 2_000];
/** How long after a press another one does nothing, if the end comes sooner: fingers tremble. */
const deafFor = 1_500;
/** How long the end of an unlock stays on its button, and the reason of a bad one below it. */
const shownFor = 6_000;
const reasonFor = 60_000;

/** The words for how an unlock ended (outcomes of the contract), with a tone. */
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

function set(key, state) {
	if (state) unlocks.set(key, state);
	else unlocks.delete(key);
	for (const listener of listeners) listener(key);
}

/** nameOf returns what people call a station. */
export function nameOf(station) {
	return station.name || `Station ${station.stationId}`;
}

/** lockName returns what people call a lock; of one that is alone, ''. */
export function lockName(station, lock) {
	return station.locks.length > 1 ? `Lock ${lock.lockId.replace('lock-', '')}` : '';
}

function pathOf(station, lock) {
	return session.account.admin
		? `/admin/v1/stations/${station.stationId}/locks/${lock.lockId}/unlock`
		: `/local/v1/stations/${encodeURIComponent(station.token)}/locks/${lock.lockId}/unlock`;
}

/** result asks for the station's own result of a command that it has acknowledged. */
async function result(id) {
	for (const wait of asks) {
		await new Promise((resolve) => setTimeout(resolve, wait));
		const { outcome } = await get(`/local/v1/commands/${id}`);
		if (outcome !== 'acknowledged') return outcome;
	}
	return 'acknowledged';
}

/** open sends the command once, and returns how it ended; acknowledged is called in between. */
async function open(station, lock, acknowledged) {
	const path = pathOf(station, lock) + '?wait=acknowledged';
	const { outcome, commandId } = await post(path, undefined, { headers: { 'Idempotency-Key': newKey() }, patience });
	if (outcome !== 'acknowledged') return outcome;
	acknowledged();
	return result(commandId).catch(() => outcome);
}

/**
 * unlock opens a lock once: while it is under way, another press does nothing, and it is
 * never sent again by itself.
 */
async function unlock(key, station, lock) {
	if (unlocks.get(key)?.busy || live.link !== 'live') return;
	const where = [nameOf(station), lockName(station, lock)].filter(Boolean).join(', ');
	const turn = {};
	const show = (state) => set(key, state && { turn, ...state });
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
		const [tone, text, why] = ends[outcome] ?? ['bad', 'Unknown', `The outcome is ${outcome}.`];
		end = { tone, text, why };
	} catch (error) {
		end = error.status
			? { tone: 'bad', text: 'Not sent', why: error.message }
			: { tone: 'bad', text: 'Not known', why: `${error.message} Whether it opened is not known: look at the door.` };
	}
	announce(`${where}: ${end.text}. ${end.why}`);
	show({ ...end, busy: true });
	later(Math.max(0, began + deafFor - Date.now()), end);
	later(shownFor, end.tone === 'bad' && { tone: 'bad', why: end.why });
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

const lockStates = {
	locked: ['plain', 'Locked'],
	unlocked: ['warn', 'Unlocked'],
	jammed: ['bad', 'Jammed'],
	unknown: ['plain', 'State unknown'],
};

const doorStates = { open: ['warn', 'Door open'], closed: ['plain', 'Door closed'], unknown: ['plain', 'Door unknown'] };

/** LockRow shows a lock of a station, its door, and its button. */
export function LockRow({ station, lock }) {
	const key = `${station.stationId}/${lock.lockId}`;
	const state = useUnlock(key);
	const link = useLink();
	const current = link === 'live';
	const reachable = current && station.status === 'online';
	const name = lockName(station, lock);
	const [tone, text] = lockStates[lock.status];
	const [doorTone, door] = doorStates[lock.door] ?? [];
	const label = state?.text ?? (reachable ? 'Unlock' : current ? 'Offline' : 'Not connected');
	return html`<li class="lock">
		<div class="facts">
			${name && html`<span class="name">${name}</span>`}
			<span class="state"><${Badge} tone=${current ? tone : 'plain'}>${text}<//>${' '}
				${lock.lastUpdated ? html`<${Age} at=${lock.lastUpdated} />` : html`<span class="age">not reported yet</span>`}</span>
			${door && html`<span class="state"><${Badge} tone=${current ? doorTone : 'plain'}>${door}<//>${' '}
				${lock.doorSince && html`<${Age} at=${lock.doorSince} />`}</span>`}
		</div>
		<button type="button" class=${'unlock ' + (state?.text ? (state.tone ?? '') : '')} aria-disabled=${!reachable || !!state?.busy}
			aria-label=${`${label}: ${[nameOf(station), name].filter(Boolean).join(', ')}`}
			onClick=${() => reachable && unlock(key, station, lock)}>${label}</button>
		${state?.why && html`<p class=${'why ' + state.tone}>${state.why}</p>`}
	</li>`;
}
