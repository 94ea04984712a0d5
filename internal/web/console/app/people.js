import { Empty, Title, html } from './ui.js';

export default function People() {
	return html`<${Title}>People<//>
		<${Empty} title="Not here yet" />`;
}
