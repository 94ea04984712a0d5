// What is known of the stations right now, and whether it is still true. A phone that
// slept, a gateway that went away and a line that fell silent all look like an open
// connection; so nothing here is current unless a line has come within the last 20 seconds
// and the page was awake all that time.

import { ApiError, lines } from './api.js';

// A stream without a line for longer is not current: the gateway sends one every 15 s.
const quietLimit = 19_000;
// A timer that is this late shows that the page slept, or that its clock was changed.
const sleepLimit = 5_000;
// What one attempt to connect may take; each third may take longer, for a slow board.
const attemptLimit = [2_000, 2_000, 10_000];

const listeners = new Map(); // by topic: "link", "list", "second", "session", "address", a station, a lock

export function subscribe(topic, listener) {
	if (!listeners.has(topic)) listeners.set(topic, new Set());
	listeners.get(topic).add(listener);
	return () => listeners.get(topic).delete(listener);
}

export function publish(topic) {
	for (const listener of listeners.get(topic) ?? []) listener();
}

const streams = new Set();

// Stream follows a line-JSON stream: at once when the page wakes, else again within a
// second. It calls whole with what is there and how far the gateway's clock is ahead, then
// line with each change; lost, with an ApiError or null and the time of the last line, when
// that may not be true any more. With once it ends with the answer.
export class Stream {
	constructor(options) {
		Object.assign(this, { failures: 0 }, options);
		streams.add(this);
		this.run();
	}

	stop() {
		streams.delete(this);
		this.wake();
	}

	// wake connects anew, at once.
	wake() {
		Object.assign(this, { failures: 0, woken: true });
		this.lost(null, this.heard);
		this.attempt?.abort();
		this.rested?.();
	}

	async run() {
		while (streams.has(this)) {
			this.attempt = new AbortController();
			Object.assign(this, { woken: false, connected: false, began: Date.now() });
			if (document.hidden) { // browsers allow few streams
				await this.pause(60_000);
				continue;
			}
			const failed = await this.read(this.attempt.signal).then(() => null, (error) => (error instanceof ApiError ? error : null));
			if (this.woken) continue;
			if (this.once && !failed) return streams.delete(this);
			this.failures++;
			this.lost(failed, this.heard);
			await this.pause(failed?.status === 429 ? 5_000 : Math.min(250 * this.failures, 1_000));
		}
	}

	read(signal) {
		let missing, there, ahead;
		const take = (value) => {
			if (signal.aborted || overslept()) return; // from before the sleep
			Object.assign(this, { heard: Date.now(), failures: 0 });
			if (!value) return;
			if (!('stationId' in value || 'seq' in value)) { // the start of what is there
				[missing, there, ahead] = [value.count, [], Date.parse(value.time) - Date.now()];
			} else if (there) {
				there.push(value);
			} else {
				return this.line(value);
			}
			if (there.length < missing) return;
			this.whole(there, ahead);
			there = null;
		};
		return lines(this.path, take, { signal, opened: () => Object.assign(this, { connected: true, heard: Date.now() }) });
	}

	pause(milliseconds) {
		return new Promise((resolve) => {
			this.rested = resolve;
			setTimeout(resolve, milliseconds);
		});
	}

	check(now) {
		if (this.connected && now - this.heard > quietLimit) this.wake();
		else if (!this.connected && now - this.began > attemptLimit[this.failures % attemptLimit.length]) this.attempt?.abort();
	}
}

let ticked = Date.now();

// overslept wakes everything if the page has not run for some time, and reports it.
function overslept() {
	if (document.hidden || Math.abs(Date.now() - ticked) < sleepLimit) return false;
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
	publish('second');
}

setInterval(tick, 1_000);
for (const name of ['pageshow', 'online']) addEventListener(name, wakeAll);
for (const name of ['resume', 'visibilitychange']) document.addEventListener(name, wakeAll);

// link is "connecting" until the stations are whole for the first time, then "live" or "lost".
export const live = { link: 'connecting', error: null, stations: new Map(), ahead: 0, known: 0 };

// now returns the gateway's time, in milliseconds: ages are counted against its clock.
live.now = () => Date.now() + live.ahead;

export const stationName = (id) => live.stations.get(Number(id))?.name || `Station ${id}`;

function setLink(link, error = null) {
	if (link === live.link && error?.message === live.error?.message) return;
	Object.assign(live, { link, error });
	publish('link');
	publish('second');
}

function change(station) {
	const id = station.stationId;
	if (station.removed) live.stations.delete(id);
	else if (JSON.stringify(live.stations.get(id)) === JSON.stringify(station)) return;
	else live.stations.set(id, station);
	publish(id);
	publish('list');
}

let stream = null;

export function follow(path) {
	unfollow();
	stream = new Stream({
		path,
		whole: (stations, ahead) => {
			live.ahead = ahead;
			const ids = new Set(stations.map(({ stationId }) => stationId));
			for (const stationId of live.stations.keys()) if (!ids.has(stationId)) change({ stationId, removed: true });
			stations.forEach(change);
			setLink('live');
		},
		line: change,
		lost: (error, heard) => {
			if (live.link === 'live') live.known = heard;
			setLink(live.link === 'connecting' ? 'connecting' : 'lost', error);
		},
	});
}

// unfollow forgets everything: another account may sign in.
export function unfollow() {
	stream?.stop();
	stream = null;
	Object.assign(live, { link: 'connecting', error: null, known: 0 });
	live.stations.clear();
	publish('list');
}
