import { Empty, Title, html } from './ui.js';

export default function Add() {
	return html`<${Title}>Add<//>
		<${Empty} title="Not here yet" />`;
}
