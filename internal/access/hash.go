package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

// maxHashed bounds the bytes of a login's password that are hashed.
const maxHashed = 1024

// Params are the cost of an argon2id hash (RFC 9106, section 3.1).
type Params struct {
	MemoryKiB uint32
	Time      uint32
	Threads   uint8
}

// The bounds of what is ever computed: a stored hash that was tampered with must
// not be able to exhaust the board.
const (
	maxMemoryKiB = 64 << 10
	maxTime      = 16
	maxThreads   = 4
	laneKiB      = 8 // argon2 needs that much for each thread
)

// DefaultParams returns the parameters for a board with that many bytes of RAM: 19
// MiB and 2 passes, or 7 MiB and 5 passes below 512 MB, which cost an attacker the
// same. Zero (unknown) counts as small.
func DefaultParams(totalRAM uint64) Params {
	const small = 512 << 20
	if totalRAM < small {
		return Params{MemoryKiB: 7168, Time: 5, Threads: 1}
	}
	return Params{MemoryKiB: 19456, Time: 2, Threads: 1}
}

// check refuses parameters out of bounds.
func (p Params) check() error {
	if p.Threads < 1 || p.Threads > maxThreads || p.Time < 1 || p.Time > maxTime ||
		p.MemoryKiB < laneKiB*uint32(p.Threads) || p.MemoryKiB > maxMemoryKiB {
		return fmt.Errorf("the cost of argon2 is out of bounds: %+v", p)
	}
	return nil
}

// The sizes of a hash's parts in bytes: what is made, and what is read.
const (
	saltLen, minSalt, maxSalt = 16, 8, 64
	sumLen, minSum, maxSum    = 32, 16, 64
)

// hash is a password hash taken apart.
type hash struct {
	params    Params
	salt, sum []byte
}

// errHash means no more, so that no part of a hash gets into a log line.
var errHash = errors.New("not an argon2id hash within bounds")

// parseHash reads the PHC string "$argon2id$v=19$m=19456,t=2,p=1$salt$hash" exactly
// as [hash.String] writes it, and nothing beyond the bounds.
func parseHash(text string) (hash, error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 {
		return hash{}, errHash
	}
	var h hash
	_, err1 := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.params.MemoryKiB, &h.params.Time, &h.params.Threads)
	salt, err2 := base64.RawStdEncoding.DecodeString(parts[4])
	sum, err3 := base64.RawStdEncoding.DecodeString(parts[5])
	h.salt, h.sum = salt, sum
	switch {
	case errors.Join(err1, err2, err3, h.params.check()) != nil, h.String() != text,
		len(salt) < minSalt || len(salt) > maxSalt, len(sum) < minSum || len(sum) > maxSum:
		return hash{}, errHash
	}
	return h, nil
}

// String returns the PHC string. It is no secret type: it is turned into one at once.
func (h hash) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", // 19 is argon2's own version, 0x13
		h.params.MemoryKiB, h.params.Time, h.params.Threads, b64.EncodeToString(h.salt), b64.EncodeToString(h.sum))
}

// derive computes an argon2id sum; tests count its calls.
type derive func(password, salt []byte, time, memoryKiB uint32, threads uint8, length uint32) []byte

// hashing makes and compares hashes. The caller of hash and verify holds a slot.
type hashing struct {
	params Params
	dummy  hash   // matches nothing
	secret []byte // of accountKey
	derive derive
	queue  *limit.Queue[flow]
}

func newHashing(params Params, atOnce int, key []byte) hashing {
	secret := sha256.Sum256(append([]byte("gatehouse like hash\x00"), key...))
	return hashing{
		secret: secret[:],
		params: params,
		dummy:  hash{params: params, salt: random(saltLen), sum: random(sumLen)},
		derive: argon2.IDKey,
		queue:  newQueue(atOnce),
	}
}

// accountKey names an account, or what might be one, in the tables of the throttle. It
// depends on the e-mail address alone, also over restarts, and cannot be computed without
// the key.
func (h *hashing) accountKey(email string) (key [32]byte) {
	mac := hmac.New(sha256.New, h.secret)
	mac.Write([]byte(email))
	mac.Sum(key[:0])
	return key
}

// hash makes the hash of a new password.
func (h *hashing) hash(password site.Secret) site.Secret {
	made := hash{params: h.params, salt: random(saltLen)}
	made.sum = h.sum(made, password.Reveal(), sumLen)
	return site.Secret(made.String())
}

// verify compares a password with a stored hash and reports whether the hash should be
// computed anew. An overlong password matches nothing, at the same cost. So does an
// empty or unreadable hash, at the cost of like, or of a new hash where like is zero.
func (h *hashing) verify(stored site.Secret, like Params, password site.Secret) (outdated, matches bool) {
	against, err := parseHash(stored.Reveal())
	if err != nil {
		against = h.dummy
		if like != (Params{}) {
			against.params = like
		}
	}
	text := password.Reveal()
	fits := len(text) <= maxHashed
	if !fits {
		text = text[:maxHashed]
	}
	sum := h.sum(against, text, len(against.sum))
	equal := subtle.ConstantTimeCompare(sum, against.sum) == 1
	outdated = against.params != h.params || len(against.salt) < saltLen || len(against.sum) < sumLen
	return outdated, equal && fits && err == nil
}

func (h *hashing) sum(of hash, password string, length int) []byte {
	return h.derive([]byte(password), of.salt, of.params.Time, of.params.MemoryKiB, of.params.Threads, uint32(length)) //nolint:gosec // at most 64
}
