package amend

// Stride is between the numbers of two revocations.
const Stride = stride
