// Requests to the gateway. Every error that a caller sees is an ApiError whose message is
// a sentence for people. A path without a leading slash is one of /admin/v1.

// How long the page waits for an answer, in milliseconds.
const patience = 30_000;

export class ApiError extends Error {
	// status is that of HTTP; 0 when the gateway did not answer.
	constructor(message, status = 0) {
		super(sentence(message));
		this.status = status;
	}
}

export function sentence(message) {
	return /[.!?…]$/.test(message) ? message : message + '.';
}

// url is a template whose values are escaped: url`accounts/${email}`.
export function url(parts, ...values) {
	return String.raw(parts, ...values.map(encodeURIComponent));
}

async function failure(response) {
	const { message } = await response.json().catch(() => ({})); // not from the gateway, or cut off
	return new ApiError(message || `The gateway answered ${response.status}`, response.status);
}

// lost words why there is no answer. A request that its caller ended stays an AbortError.
function lost(error) {
	if (error.name === 'AbortError') throw error;
	throw new ApiError(error.name === 'TimeoutError' ? 'The gateway did not answer in time' : 'The gateway does not answer. Is this device in its network?');
}

// open returns the Response when its header is there. A file is sent as it is. A 401 is the event "signedout", unless the request signs in.
export async function open(method, path, { body, headers, signal, signsIn } = {}) {
	const json = body && !(body instanceof Blob);
	const type = json && { 'Content-Type': 'application/json' };
	const options = { method, headers: { ...type, ...headers }, body: json ? JSON.stringify(body) : body, signal, cache: 'no-store' };
	const response = await fetch(path.startsWith('/') ? path : '/admin/v1/' + path, options).catch(lost);
	if (response.ok) return response;
	if (response.status === 401 && !signsIn) dispatchEvent(new Event('signedout'));
	throw await failure(response);
}

// request returns the value of the JSON of an answer, null for a 204.
async function request(method, path, options = {}) {
	const signals = [AbortSignal.timeout(options.patience ?? patience), options.signal].filter(Boolean);
	const response = await open(method, path, { ...options, signal: AbortSignal.any(signals) });
	return response.status === 204 ? null : response.json().catch(lost);
}

export const get = (path, options) => request('GET', path, options);
export const post = (path, body, options) => request('POST', path, { ...options, body });
export const put = (path, body, options) => request('PUT', path, { ...options, body });
export const patch = (path, body) => request('PATCH', path, { body });
export const remove = (path, options) => request('DELETE', path, options);

// lines reads a line-JSON answer to its end and calls line with the value of each line, and
// with null for an empty one, which is a sign of life. An error within it is thrown.
export async function lines(path, line, { signal, opened }) {
	const response = await open('GET', path, { signal });
	opened();
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	for (let rest = ''; ; ) {
		const { done, value: chunk } = await reader.read().catch(lost);
		if (done) return;
		const whole = (rest + chunk).split('\n');
		rest = whole.pop();
		for (const text of whole) {
			const value = text === '' ? null : JSON.parse(text);
			if (value?.message && Object.keys(value).length === 1) throw new ApiError(value.message);
			line(value);
		}
	}
}
