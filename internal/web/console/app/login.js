// What a station logs in with: shown once, to be copied or scanned.

import { get, post } from './api.js';
import { Problem, Secret, html, useLoad } from './ui.js';

/** broker returns where stations connect: the listener with TLS, by the host that reached this page. */
function broker({ listeners, addresses }) {
	const found = ['mqtts', 'mqtt'].map((name) => listeners.find((one) => one.name === name)).find(Boolean);
	if (!found) return null;
	const [, host, port] = found.address.match(/^(.*):(\d+)$/);
	if (host !== '[::]' && host !== '0.0.0.0') return { host, port, tls: found.tls };
	const here = location.hostname;
	const [outside] = /^(localhost|127\.|\[::1)/.test(here) ? addresses : [];
	return { host: outside?.includes(':') ? `[${outside}]` : (outside ?? here), port, tls: found.tls };
}

/** outline returns the dark modules of a QR code as the path of an SVG. */
function outline(rows) {
	return rows.flatMap((row, y) => Array.from(row.matchAll(/1+/g), ({ 0: { length }, index }) => `M${index} ${y}h${length}v1h-${length}z`)).join('');
}

function QR({ text }) {
	const { value, error, again } = useLoad(() => post('/admin/v1/qr', { text }), [text]);
	if (!value) return html`<${Problem} text=${error} again=${again} />`;
	const size = value.size + 8; // the quiet zone
	return html`<svg class="qr" role="img" aria-label="QR code of the login" viewBox=${`-4 -4 ${size} ${size}`} shape-rendering="crispEdges">
		<path fill="#fff" d=${`M-4-4h${size}v${size}h-${size}z`} /><path fill="#000" d=${outline(value.rows)} />
	</svg>`;
}

/** Login shows what was issued for a station (an IssuedStation of the API). */
export function Login({ issued }) {
	const { value: status, error, again } = useLoad((signal) => get('/admin/v1/status', { signal }));
	const { username, password } = issued.mqtt;
	const server = status && broker(status);
	return html`<div class="login">
		<p class="notice"><strong>Shown this once.</strong> The gateway keeps no copy that it could show again.</p>
		<dl>
			${server && html`<${Secret} name="Server" text=${`${server.host}:${server.port}`} note=${server.tls ? 'MQTT with TLS' : 'MQTT without TLS'} />`}
			<${Secret} name="User name and client id" text=${username} />
			<${Secret} name="Password" text=${password} />
			${issued.stationToken && html`<${Secret} name="Station token, for apps" text=${issued.stationToken} />`}
		</dl>
		<${Problem} text=${error} again=${again} />
		${server && html`<${QR} text=${`${server.tls ? 'mqtts' : 'mqtt'}://${username}:${encodeURIComponent(password)}@${server.host}:${server.port}`} />`}
		${server?.tls && html`<p><small>The station has to trust <a href="/ca.crt" download>this gateway’s certificate</a>.</small></p>`}
	</div>`;
}
