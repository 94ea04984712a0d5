package sitefile

// nearest gives the word that key was probably meant to be, or "".
func nearest(key string, words []string) string {
	const longest, most = 24, 2
	if len(key) > longest {
		return ""
	}
	best, least := "", most+1
	for _, word := range words {
		if d := distance(key, word); d < least && d < len(word)-1 {
			best, least = word, d
		}
	}
	return best
}

// distance counts the insertions, deletions and replacements that make b of a
// (Levenshtein).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
		}
	}
	return rows[len(a)][len(b)]
}
