package admission

// RoundTrip is the estimate behind [Acknowledge].
var RoundTrip = roundTrip
