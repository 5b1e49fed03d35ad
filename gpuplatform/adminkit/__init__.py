"""The building blocks of the admin; they do not depend on any app."""
