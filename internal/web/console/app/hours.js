// Weekly hours, as the gateway writes them: "Mon-Fri 08:00-18:00, Sat 10:00-14:00".

import { Options, html, useState } from './ui.js';

const days = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'].map((day) => [day, day]);

function read(text) {
	return [...(text ?? '').matchAll(/(\w{3})(?:-(\w{3}))? (\d\d:\d\d)-(\d\d:\d\d)/g)].map(([, first, last = first, start, end]) => ({ first, last, start, end }));
}

function write(spans) {
	return spans.map(({ first, last, start, end }) => `${first === last ? first : first + '-' + last} ${start}-${end}`).join(', ');
}

/** Hours is a field for weekly hours. An end before the start is on the next day. */
export function Hours({ label, name, value }) {
	const [spans, set] = useState(() => read(value));
	const part = (i, key, label) => {
		const change = ({ target }) => set(spans.map((span, at) => (at === i ? { ...span, [key]: target.value } : span)));
		const props = { 'aria-label': `${label}, hours ${i + 1}`, value: spans[i][key].replace('24:00', '00:00'), onInput: change };
		if (key === 'start' || key === 'end') return html`<input type="time" required ...${props} />`;
		return html`<select ...${props}><${Options} of=${days} /></select>`;
	};
	return html`<fieldset class="field">
		<legend>${label}</legend>
		<input type="hidden" name=${name} value=${write(spans)} />
		${spans.length === 0 && html`<p>At any hour.</p>`}
		${spans.map((_, i) => html`<div class="span" key=${i}>
			${part(i, 'first', 'From day')} – ${part(i, 'last', 'To day')} ${part(i, 'start', 'From')} – ${part(i, 'end', 'To')}
			<button type="button" class="plain" aria-label=${`Remove hours ${i + 1}`} onClick=${() => set(spans.filter((_, at) => at !== i))}>Remove</button>
		</div>`)}
		${spans.length < 16 && html`<button type="button" onClick=${() => set([...spans, { first: 'Mon', last: 'Fri', start: '08:00', end: '18:00' }])}>
			${spans.length ? 'More hours' : 'Only at certain hours'}
		</button>`}
	</fieldset>`;
}
