package unlock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// keyDigest identifies a key of an account for one lock, so that the journal need not
// hold what the client chose.
func keyDigest(req Request) string {
	h := sha256.New()
	for _, part := range []string{string(req.Actor.Account), req.Station.String(), strconv.Itoa(int(req.Lock)), req.IdempotencyKey} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// openOnce opens for the first request with a key and returns its answer to the others.
// Where the first one's client had gone and nothing was sent, the next one is the first.
func (s *Service) openOnce(ctx context.Context, req Request) (Answer, error) {
	account, digest := req.Actor.Account, keyDigest(req)
	for {
		r, first, err := s.replays.claim(account, digest, time.Now().Add(keyLife), time.Time{})
		if err != nil {
			s.Metrics.Refused("idempotency-keys")
			return Answer{}, err
		}
		if first {
			return s.openFirst(ctx, req, r, digest), nil
		}
		select {
		case <-r.done:
			if answer, _ := r.ended(); !answer.gone {
				return answer, nil
			}
		case <-ctx.Done():
			return Answer{}, fault.Wrap(fault.Timeout, "An earlier request with this Idempotency-Key is still under way", ctx.Err())
		}
	}
}

// openFirst opens for the first request with a key and ends its replay.
func (s *Service) openFirst(ctx context.Context, req Request, r *replay, digest string) Answer {
	answer := Answer{Outcome: site.Unresolved} // of a panic
	defer func() {
		if answer.gone {
			s.replays.release(req.Actor.Account, digest)
		}
		r.end(answer)
	}()
	answer = s.open(ctx, req)
	return answer
}

// replayed returns the first answer to the key of req, if it has one and there is an
// answer already.
func (s *Service) replayed(req Request) (answer Answer, ok bool) {
	if req.IdempotencyKey == "" {
		return Answer{}, false
	}
	r := s.replays.find(req.Actor.Account, keyDigest(req))
	if r == nil || !req.Accepted.Before(r.expires) {
		return Answer{}, false
	}
	answer, ok = r.ended()
	return answer, ok && !answer.gone
}
