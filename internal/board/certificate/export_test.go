package certificate

// LookEvery is how often a Keeper looks.
const LookEvery = lookEvery

// RetryAfter is how long it waits after a write that failed.
const RetryAfter = retryAfter

// NewBroken is New with writes that call step before each of their steps.
func NewBroken(cfg Config, step func(name string) error) (*Keeper, error) {
	return newKeeper(cfg, step)
}
