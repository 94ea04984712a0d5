// One lock: what is known of it, and the button that opens it.

import { newKey, post } from './api.js';
import { live } from './live.js';
import { session } from './session.js';
import { Age, Badge, announce, html, useEffect, useLink, useRedraw } from './ui.js';

/** What one unlock may take before the page stops waiting, in milliseconds: longer than a command lives. */
const patience = 12_000;
/** How long the end of an unlock stays on its button. */
const shownFor = 8_000;

/** The words for how an unlock ended (outcomes of the contract), with a tone. */
const ends = {
	done: ['ok', 'Unlocked', 'The station says that it unlocked.'],
	acknowledged: ['ok', 'Sent', 'The station has taken the command, and has not said how it ended.'],
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

/**
 * unlock opens a lock once: while it is under way, another press does nothing, and it is
 * never sent again by itself.
 */
async function unlock(key, station, lock) {
	if (unlocks.get(key)?.busy || live.link !== 'live') return;
	const where = [nameOf(station), lockName(station, lock)].filter(Boolean).join(', ');
	set(key, { busy: true, text: 'Sending…' });
	announce(`${where}: sending.`);
	let end;
	try {
		const { outcome } = await post(pathOf(station, lock), undefined, { headers: { 'Idempotency-Key': newKey() }, patience });
		const [tone, text, why] = ends[outcome] ?? ['bad', 'Unknown', `The outcome is ${outcome}.`];
		end = { tone, text, why };
	} catch (error) {
		const why = error.status ? error.message : `${error.message} It is not known whether it opened: look at the door.`;
		end = { tone: 'bad', text: 'Not unlocked', why };
		if (!error.status) end.text = 'Not known';
	}
	announce(`${where}: ${end.text}. ${end.why}`);
	set(key, end);
	setTimeout(() => unlocks.get(key) === end && set(key), shownFor);
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
	let label = state?.busy || state?.text ? state.text : 'Unlock';
	if (!state && !reachable) label = current ? 'Offline' : 'Not connected';
	return html`<li class="lock">
		<div class="facts">
			${name && html`<span class="name">${name}</span>`}
			<span class="states">
				<${Badge} tone=${current ? tone : 'plain'}>${text}<//>
				${door && html` <${Badge} tone=${current ? doorTone : 'plain'}>${door}<//>`}
			</span>
			${lock.lastUpdated ? html`<${Age} at=${lock.lastUpdated} />` : html`<span class="age">not reported yet</span>`}
		</div>
		<button type="button" class=${'unlock ' + (state ? (state.tone ?? 'busy') : '')} aria-disabled=${!reachable || !!state?.busy}
			aria-label=${`${label}: ${[nameOf(station), name].filter(Boolean).join(', ')}`}
			onClick=${() => reachable && unlock(key, station, lock)}>${label}</button>
		${state?.why && html`<p class=${'why ' + state.tone}>${state.why}</p>`}
	</li>`;
}
