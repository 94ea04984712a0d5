package station

// StoreDeadline is what tests have to know of the bounds.
const StoreDeadline = storeDeadline
