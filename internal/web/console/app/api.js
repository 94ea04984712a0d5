// Requests to the gateway. Every error that a caller sees is an ApiError whose message is
// a sentence for people.

/** What a request or an answer is given before the page stops waiting, in milliseconds. */
const patience = 30_000;

export class ApiError extends Error {
	/** status is that of HTTP; 0 when the gateway did not answer. */
	constructor(message, status = 0) {
		super(message);
		this.status = status;
	}
}

let signedOut = () => {};

/** onSignedOut sets what happens when the gateway no longer knows the session. */
export function onSignedOut(handler) {
	signedOut = handler;
}

/** signal ends after some milliseconds, or with another signal. */
function within(milliseconds, other) {
	const limit = AbortSignal.timeout(milliseconds);
	return (other && AbortSignal.any?.([limit, other])) ?? limit; // an older browser waits in vain, no longer
}

/** failure returns the error behind an answer that is not 2xx. */
async function failure(response) {
	let message = '';
	try {
		message = (await response.json()).message;
	} catch {
		// Not from the gateway, or cut off.
	}
	message = sentence(message || `The gateway answered ${response.status}`);
	const wait = Number(response.headers.get('Retry-After'));
	if (wait > 1 && response.status === 429) message += ` Try again in ${wait} s.`;
	return new ApiError(message, response.status);
}

/** sentence ends a message with a full stop. */
export function sentence(message) {
	return /[.!?…]$/.test(message) ? message : message + '.';
}

/**
 * open sends a request and returns the Response when its header is there. A 401 ends the
 * session of the page, unless the request itself signs in.
 */
export async function open(method, path, { body, headers = {}, signal, signsIn = false } = {}) {
	const init = { method, headers: { Accept: 'application/json', ...headers }, signal, cache: 'no-store' };
	if (body !== undefined) {
		init.body = JSON.stringify(body);
		init.headers['Content-Type'] = 'application/json';
	}
	let response;
	try {
		response = await fetch(path, init);
	} catch (error) {
		throw lost(error);
	}
	if (response.ok) return response;
	if (response.status === 401 && !signsIn) signedOut();
	throw await failure(response);
}

/** lost words why there is no answer. A request that its caller ended stays an AbortError. */
function lost(error) {
	if (error.name === 'AbortError') return error;
	if (error.name === 'TimeoutError') return new ApiError('The gateway did not answer in time.');
	return new ApiError('The gateway does not answer. Is this device in its network?');
}

/** request sends a request and returns its answer: the value of the JSON, null for a 204. */
export async function request(method, path, options = {}) {
	const signal = within(options.patience ?? patience, options.signal);
	const response = await open(method, path, { ...options, signal });
	if (response.status === 204) return null;
	try {
		return await response.json();
	} catch (error) {
		throw lost(error);
	}
}

export const get = (path, options) => request('GET', path, options);
export const post = (path, body, options) => request('POST', path, { ...options, body });
export const put = (path, body, options) => request('PUT', path, { ...options, body });
export const patch = (path, body, options) => request('PATCH', path, { ...options, body });
export const remove = (path, options) => request('DELETE', path, options);

/**
 * lines reads a line-JSON answer and calls line with the value of each line, and with
 * null for an empty one, which is a sign of life. It returns at the end of the answer. An
 * error of the gateway within it is thrown.
 */
export async function lines(path, line, { signal, opened = () => {} } = {}) {
	const response = await open('GET', path, { headers: { Accept: 'application/x-ndjson' }, signal });
	opened();
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = '';
	for (;;) {
		let chunk;
		try {
			chunk = await reader.read();
		} catch (error) {
			throw lost(error);
		}
		if (chunk.done) return;
		const whole = (rest + chunk.value).split('\n');
		rest = whole.pop();
		for (const text of whole) {
			const value = text === '' ? null : JSON.parse(text);
			const names = value && Object.keys(value);
			if (names?.length === 1 && names[0] === 'message') throw new ApiError(sentence(value.message));
			line(value);
		}
	}
}

/** newKey returns an Idempotency-Key: 128 random bits. */
export function newKey() {
	return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
