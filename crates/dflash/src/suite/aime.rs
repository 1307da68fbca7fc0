//! Whether an answer to a problem of the American Invitational Mathematics Examination is right.
