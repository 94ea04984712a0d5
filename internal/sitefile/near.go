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

// distance counts the insertions, deletions, replacements and swaps of neighbours
// that make b of a (optimal string alignment).
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
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
