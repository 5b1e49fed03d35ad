"""What operators do about rows: actions, their forms, and the pages that offer them."""
