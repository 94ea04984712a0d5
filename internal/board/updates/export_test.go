package updates

// AdviceFor is adviceFor, for tests.
var AdviceFor = adviceFor
