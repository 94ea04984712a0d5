import { Empty, Title, html } from './ui.js';

export default function Journal() {
	return html`<${Title}>Journal<//>
		<${Empty} title="Not here yet" />`;
}
