// The pages of the console. Each is a module whose default export is a component; it gets
// args, the parts of its address after its own name, and query, a URLSearchParams.

/** Pages with a title stand in the navigation; admin pages are for administrators alone. */
export const pages = [
	{ name: 'doors', title: 'Doors', load: () => import('./doors.js') },
	{ name: 'people', title: 'People', admin: true, load: () => import('./people.js') },
	{ name: 'journal', title: 'Journal', admin: true, load: () => import('./journal.js') },
	{ name: 'gateway', title: 'Gateway', admin: true, load: () => import('./gateway.js') },
	{ name: 'station', admin: true, under: 'doors', load: () => import('./station.js') },
	{ name: 'add', admin: true, under: 'doors', load: () => import('./add.js') },
];
