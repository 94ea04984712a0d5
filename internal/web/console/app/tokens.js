// Tokens: what apps and integrations use instead of a person's password.

import { get, post, remove } from './api.js';
import { live } from './live.js';
import { Rows, inZone, stationName, useFresh } from './parts.js';
import { Dialog, Field, Form, Problem, Secret, announce, html, useState } from './ui.js';

function scopesText(scopes) {
	const unlock = scopes.find((scope) => scope.startsWith('unlock:'))?.slice('unlock:'.length);
	if (!unlock) return scopes.length ? 'sees every station' : 'opens nothing any more';
	return unlock === '*' ? 'opens every door' : 'opens ' + unlock.split(',').map((id) => stationName(Number(id), live.stations)).join(', ');
}

function AddToken({ close, added }) {
	const [issued, setIssued] = useState(null);
	const [unlock, setUnlock] = useState('');
	if (issued) {
		return html`<${Dialog} title="Token" onClose=${close}>
			<p>This token is shown this once. Enter it in the app now. <a href="/docs#local" target="_blank">How an app uses it</a></p>
			<dl><${Secret} name=${issued.name} text=${issued.token} /></dl>
			<button type="button" class="primary" onClick=${close}>Done</button>
		<//>`;
	}
	const add = async ({ name, until }, form) => {
		const stations = form.getAll('station').join(',');
		const scopes = ['read', ...(unlock === '*' || stations ? ['unlock:' + (stations || '*')] : [])];
		setIssued(await post('/admin/v1/tokens', { name, scopes, until: until ? new Date(until).toISOString() : undefined }));
		added();
	};
	return html`<${Dialog} title="Add a token" onClose=${close}>
		<${Form} submit="Add" cancel=${close} onSubmit=${add}>
			<${Field} label="Name" name="name" required maxlength="64" autocomplete="off" hint="Of the app that will use it; the journal says so." />
			<${Field} label="It may" as="select" value=${unlock} onChange=${(event) => setUnlock(event.target.value)}>
				<option value="">see every station</option>
				<option value="some">see every station, open some</option>
				<option value="*">see and open every station</option>
			<//>
			${unlock === 'some' && html`<fieldset class="field"><legend>It may open</legend>
				${[...live.stations.keys()].map((id) => html`<label class="check" key=${id}><input type="checkbox" name="station" value=${id} /> ${stationName(id, live.stations)}</label>`)}
			</fieldset>`}
			<${Field} label="Until" name="until" type="date" hint="Empty: without an end." />
		<//>
	<//>`;
}

/** Tokens lists the tokens. */
export function Tokens() {
	const [adding, add] = useState(false);
	const { value, error, again } = useFresh(async (signal) => {
		const all = await Promise.all(['tokens', 'status'].map((one) => get('/admin/v1/' + one, { signal })));
		return Object.assign({}, ...all);
	});
	const end = async ({ name }) => {
		await remove('/admin/v1/tokens/' + encodeURIComponent(name));
		announce('The token is removed.');
		await again();
	};
	const when = (at) => inZone(value.timeZone, at);
	const words = (one) => html`<span class="name">${one.name}</span><br />
		<span class="soft">${scopesText(one.scopes)} · ${one.lastUsed ? 'last used ' + when(one.lastUsed) : 'never used'}${one.until && ` · ends ${when(one.until)}`}</span>`;
	return html`<section class="card" aria-label="Apps">
		<div class="top"><h2>Apps</h2><button type="button" onClick=${() => add(true)}>Add a token</button></div>
		<p class="soft">A token lets an app see or open doors without anybody’s password. <a href="/docs">The API for apps</a></p>
		<${Problem} text=${error} again=${again} />
		${value && html`<${Rows} of=${value.tokens} words=${words} end=${end} label="Remove" name=${(one) => one.name} />`}
		${adding && html`<${AddToken} close=${() => add(false)} added=${again} />`}
	</section>`;
}
