// The records of the journal that a filter selects: the newest, older ones on demand, new
// ones as they come.

import { lines } from './api.js';
import { Stream } from './live.js';

/** How many records are fetched at once, and how many are kept: the oldest can be fetched again. */
const page = 100;
const most = 5_000;

/** address returns the address of the records of a filter, which is the text of a query. */
export function address(filter, more) {
	const query = new URLSearchParams(filter);
	for (const [key, value] of Object.entries(more)) if (value) query.set(key, value);
	return '/admin/v1/journal?' + query;
}

export class Book {
	/** changed is called when there is something new to show. With live false nothing is followed. */
	constructor(filter, live, changed) {
		Object.assign(this, { filter, live, changed, records: [], last: 0, ended: new AbortController() });
		this.stream = new Stream({
			path: () => address(filter, { tail: page, follow: true, after: this.last }),
			line: (value) => this.receive(value),
			lost: (error) => this.set({ arriving: null, error }),
		});
	}

	start() {
		if (this.live) this.stream.start();
		else this.fetchOlder().catch((error) => this.set({ error }));
	}

	stop() {
		this.ended.abort();
		this.stream.stop();
	}

	set(change) {
		Object.assign(this, change);
		this.changed();
	}

	/** receive takes a line: the start of what is there, or a record. */
	receive(value) {
		if (!value.seq) this.arriving = { ...value, records: [] };
		else if (!this.arriving) {
			this.add([value], value.seq);
			return this.changed();
		} else this.arriving.records.push(value);
		const { records, count, last } = this.arriving;
		if (records.length === count) this.arrived(records, last);
	}

	/** arrived takes what was there. Before a full page others may be missing: those that were known go. */
	arrived(records, last) {
		const full = records.length === page;
		if (full) this.records = [];
		if (full || !this.whole) this.older = full;
		this.add(records, last);
		this.set({ arriving: null, whole: true, error: null });
	}

	add(records, last) {
		this.records.push(...records.filter(({ seq }) => seq > (this.records.at(-1)?.seq ?? 0)));
		this.last = Math.max(this.last, last, records.at(-1)?.seq ?? 0);
		if (this.records.length > most) {
			this.records.splice(0, this.records.length - most);
			this.older = true;
		}
	}

	/** fetchOlder adds the records before those that are there. */
	async fetchOlder() {
		const found = [];
		await lines(address(this.filter, { tail: page, before: this.records[0]?.seq }), (value) => value?.seq && found.push(value), { signal: this.ended.signal });
		this.set({ records: [...found, ...this.records], older: found.length === page, whole: true, error: null });
	}
}
