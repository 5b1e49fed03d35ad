"""What operators do to rows: actions, their forms, and the pages that offer them."""
