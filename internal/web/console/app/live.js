// What is known of the stations right now, and whether it is still true. A phone that
// slept, a gateway that went away and a line that fell silent all look like an open
// connection; so nothing here is current unless a line has come within the last 20 seconds
// and the page was awake all that time.

import { ApiError, lines } from './api.js';

/** A stream without a line for longer is not current: the gateway sends one every 15 s. */
const quietLimit = 19_000;
/** A timer that is this late shows that the page slept, or that its clock was changed. */
const sleepLimit = 5_000;
/** A hidden page ends its stream after this time: browsers allow few. */
const hiddenLimit = 20_000;
/** What one attempt to connect may take; each third may take longer, for a slow board. */
const attemptLimit = [2_000, 2_000, 10_000];

const streams = new Set();

/**
 * Stream follows a line-JSON stream: at once when the page wakes, else again within a
 * second. path returns the address of the next attempt; line is called with each value;
 * lost, with an ApiError or null, when what came so far may not be true any more.
 */
export class Stream {
	constructor({ path, line, lost }) {
		Object.assign(this, { path, line, lost, heard: 0, failures: 0 });
	}

	start() {
		streams.add(this);
		this.run();
	}

	stop() {
		streams.delete(this);
		this.wake();
	}

	/** wake drops what it has and connects at once. */
	wake() {
		Object.assign(this, { failures: 0, woken: true });
		this.lost(null);
		this.attempt?.abort();
		this.rested?.();
	}

	async run() {
		while (streams.has(this)) {
			if (sleeping()) {
				await this.pause(hiddenLimit);
				continue;
			}
			const attempt = new AbortController();
			Object.assign(this, { attempt, woken: false, connected: false, began: Date.now() });
			const failed = await this.read(attempt.signal).then(() => null, (error) => (error instanceof ApiError ? error : null));
			if (!streams.has(this)) return;
			if (this.woken) continue;
			this.failures++;
			this.lost(failed);
			await this.pause(failed?.status === 429 ? 5_000 : Math.min(250 * this.failures, 1_000));
		}
	}

	read(signal) {
		const opened = () => Object.assign(this, { connected: true, heard: Date.now() });
		const line = (value) => {
			if (signal.aborted || overslept()) return; // from before the sleep
			Object.assign(this, { heard: Date.now(), failures: 0 });
			if (value) this.line(value);
		};
		return lines(this.path(), line, { signal, opened });
	}

	pause(milliseconds) {
		return new Promise((resolve) => {
			this.rested = resolve;
			setTimeout(resolve, milliseconds);
		});
	}

	/** check abandons what has taken too long. */
	check(now) {
		if (this.connected && (sleeping() || now - this.heard > quietLimit)) this.wake();
		else if (!this.connected && now - this.began > attemptLimit[this.failures % attemptLimit.length]) this.attempt?.abort();
	}
}

let ticked = Date.now();
let hidden = document.hidden ? 1 : 0; // a page that was never seen follows nothing, however many are opened at once
const tickers = new Set();

const sleeping = () => hidden > 0 && Date.now() - hidden > hiddenLimit;

/** overslept wakes everything if the page has not run for some time, and reports it. */
function overslept() {
	if (hidden > 0 || Math.abs(Date.now() - ticked) < sleepLimit) return false;
	wakeAll();
	return true;
}

function wakeAll() {
	ticked = Date.now();
	for (const stream of streams) stream.wake();
	tick();
}

function tick() {
	overslept();
	ticked = Date.now();
	for (const stream of streams) stream.check(ticked);
	for (const ticker of tickers) ticker();
}

/** look notes since when the page is hidden. */
function look() {
	hidden = document.hidden ? Date.now() : 0;
	if (!hidden) wakeAll();
}

setInterval(tick, 1_000);
addEventListener('pageshow', (event) => event.persisted && wakeAll());
addEventListener('online', wakeAll);
document.addEventListener('resume', () => {
	look();
	wakeAll();
});
document.addEventListener('visibilitychange', look);

/** everySecond calls a function every second, and at once when the page wakes. */
export function everySecond(ticker) {
	tickers.add(ticker);
	return () => tickers.delete(ticker);
}

/** link is "connecting" until the stations are whole for the first time, then "live" or "lost". */
export const live = { link: 'connecting', error: null, stations: new Map(), ahead: 0, known: 0 };

/** now returns the gateway's time, in milliseconds: ages are counted against its clock. */
live.now = () => Date.now() + live.ahead;

export const stationName = (id) => live.stations.get(Number(id))?.name || `Station ${id}`;

const listeners = new Map(); // by topic: "link", "list" or the id of a station

export function subscribe(topic, listener) {
	if (!listeners.has(topic)) listeners.set(topic, new Set());
	listeners.get(topic).add(listener);
	return () => listeners.get(topic).delete(listener);
}

function publish(topic) {
	for (const listener of listeners.get(topic) ?? []) listener();
}

function setLink(link, error = null) {
	if (link !== 'live' && live.link === 'live') live.known = stream.heard;
	if (link === live.link && error?.message === live.error?.message) return;
	Object.assign(live, { link, error });
	publish('link');
	for (const ticker of tickers) ticker();
}

let stream = null;
let missing = 0;
let arriving = null; // the stations of a whole state, until all have come

/** receive takes a line: the beginning of the whole state, a station, or its removal. */
function receive(value) {
	if (value.stationId === undefined) {
		live.ahead = Date.parse(value.time) - Date.now();
		missing = value.count;
		arriving = new Map();
	} else if (!arriving) {
		return change(value);
	} else {
		arriving.set(value.stationId, value);
		missing--;
	}
	if (missing > 0) return;
	for (const stationId of live.stations.keys()) {
		if (!arriving.has(stationId)) change({ stationId, removed: true });
	}
	for (const station of arriving.values()) change(station);
	arriving = null;
	setLink('live');
}

function change(station) {
	const id = station.stationId;
	if (station.removed) live.stations.delete(id);
	else if (JSON.stringify(live.stations.get(id)) === JSON.stringify(station)) return;
	else live.stations.set(id, station);
	publish(id);
	publish('list');
}

export function follow(admin) {
	unfollow();
	stream = new Stream({
		path: () => (admin ? '/admin/v1/stations/watch' : '/local/v1/watch'),
		line: receive,
		lost: (error) => {
			arriving = null;
			setLink(live.link === 'connecting' ? 'connecting' : 'lost', error);
		},
	});
	stream.start();
}

/** unfollow forgets everything: another account may sign in. */
export function unfollow() {
	stream?.stop();
	stream = null;
	Object.assign(live, { link: 'connecting', error: null, known: 0 });
	live.stations.clear();
	publish('list');
}
