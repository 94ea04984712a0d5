package unlock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"gatehouse/internal/fault"
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
			answer := s.open(ctx, req)
			if answer.gone {
				s.replays.release(account, digest)
			}
			r.end(answer)
			return answer, nil
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
