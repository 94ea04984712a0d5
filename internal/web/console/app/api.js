// Requests to the gateway. Every error that a caller sees is an ApiError whose message is
// a sentence for people.

/** How long the page waits for an answer, in milliseconds. */
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

function within(milliseconds, other) {
	const limit = AbortSignal.timeout(milliseconds);
	return (other && AbortSignal.any?.([limit, other])) ?? limit; // an older browser waits in vain, no longer
}

async function failure(response) {
	const { message } = await response.json().catch(() => ({})); // not from the gateway, or cut off
	const wait = Number(response.headers.get('Retry-After'));
	const retry = wait > 1 && response.status === 429 ? ` Try again in ${wait} s.` : '';
	return new ApiError(sentence(message || `The gateway answered ${response.status}`) + retry, response.status);
}

/** sentence ends a message with a full stop. */
export function sentence(message) {
	return /[.!?…]$/.test(message) ? message : message + '.';
}

/** lost words why there is no answer. A request that its caller ended stays an AbortError. */
function lost(error) {
	if (error.name === 'AbortError') throw error;
	throw new ApiError(error.name === 'TimeoutError' ? 'The gateway did not answer in time.' : 'The gateway does not answer. Is this device in its network?');
}

/** open returns the Response when its header is there. A 401 ends the session of the page, unless the request signs in. */
export async function open(method, path, { body, headers, signal, signsIn } = {}) {
	const type = body && { 'Content-Type': 'application/json' };
	const response = await fetch(path, { method, headers: { ...type, ...headers }, body: body && JSON.stringify(body), signal, cache: 'no-store' }).catch(lost);
	if (response.ok) return response;
	if (response.status === 401 && !signsIn) signedOut();
	throw await failure(response);
}

/** request returns the value of the JSON of an answer, null for a 204. */
async function request(method, path, options = {}) {
	const response = await open(method, path, { ...options, signal: within(options.patience ?? patience, options.signal) });
	return response.status === 204 ? null : response.json().catch(lost);
}

export const get = (path, options) => request('GET', path, options);
export const post = (path, body, options) => request('POST', path, { ...options, body });
export const put = (path, body) => request('PUT', path, { body });
export const patch = (path, body) => request('PATCH', path, { body });
export const remove = (path, options) => request('DELETE', path, options);

/**
 * lines reads a line-JSON answer to its end and calls line with the value of each line, and
 * with null for an empty one, which is a sign of life. An error within it is thrown.
 */
export async function lines(path, line, { signal, opened = () => {} } = {}) {
	const response = await open('GET', path, { headers: { Accept: 'application/x-ndjson' }, signal });
	opened();
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	for (let rest = ''; ; ) {
		const { done, value: chunk } = await reader.read().catch(lost);
		if (done) return;
		const whole = (rest + chunk).split('\n');
		rest = whole.pop();
		for (const text of whole) {
			const value = text === '' ? null : JSON.parse(text);
			if (value?.message && Object.keys(value).length === 1) throw new ApiError(sentence(value.message));
			line(value);
		}
	}
}

/** newKey returns an Idempotency-Key: 128 random bits. */
export function newKey() {
	return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
