// Tokens: what apps and integrations use instead of a person's password.

import { post, remove } from './api.js';
import { stationName } from './live.js';
import { Ask, Block, List, Load, Secrets, inZone, momentOf, stationOptions } from './parts.js';
import { Check, Field, Select, html, useState } from './ui.js';

function scopesText(scopes) {
	const unlock = scopes.find((scope) => scope.startsWith('unlock:'))?.slice('unlock:'.length);
	if (!unlock) return scopes.length ? 'sees every station' : 'opens nothing any more';
	return unlock === '*' ? 'opens every door' : 'opens ' + unlock.split(',').map(stationName).join(', ');
}

const rights = [['', 'see every station'], ['some', 'see every station, open some'], ['*', 'see and open every station']];

function Rights() {
	const [unlock, setUnlock] = useState('');
	return html`<${Select} label="It may" name="unlock" value=${unlock} onChange=${({ target }) => setUnlock(target.value)} options=${rights} />
		${unlock === 'some' && html`<fieldset class="field"><legend>It may open</legend>
			${stationOptions().map(([id, name]) => html`<${Check} key=${id} name="station" value=${id}>${name}<//>`)}
		</fieldset>`}`;
}

export function Tokens() {
	return html`<${Load} paths=${['status', 'tokens']}>${({ tokens, timeZone }, change) => {
		const add = ({ name, unlock, until }, form) => {
			const doors = unlock === 'some' ? form.getAll('station').join(',') : unlock;
			const scopes = ['read', ...(doors ? ['unlock:' + doors] : [])];
			return change(post('/admin/v1/tokens', { name, scopes, until: until ? momentOf(timeZone, until + 'T00:00') : undefined }));
		};
		const show = ({ name, token }) => html`<${Secrets} of=${{ [name]: token }} /><p>Enter it in the app now. <a href="/docs#local" target="_blank">How an app uses it</a></p>`;
		const end = ({ name }) => change(remove('/admin/v1/tokens/' + encodeURIComponent(name)));
		const when = (at) => inZone(timeZone, at);
		const note = ({ scopes, lastUsed, until }) =>
			`${scopesText(scopes)} · ${lastUsed ? 'last used ' + when(lastUsed) : 'never used'}${until ? ` · ends ${when(until)}` : ''}`;
		return html`<${Block} title="Apps" side=${html`<${Ask} button="Add a token" act=${add} show=${show}>
				<${Field} label="Name" name="name" required maxlength="64" autocomplete="off" hint="Of the app that will use it; the journal says so." />
				<${Rights} />
				<${Field} label="Until" name="until" type="date" hint="Empty: without an end." />
			<//>`}>
			<p><small>A token lets an app see or open doors without anybody’s password. <a href="/docs">The API for apps</a></small></p>
			<${List} of=${tokens} note=${note} end=${end} />
		<//>`;
	}}<//>`;
}
