"""Tables whose rows live in other stores: what such a store must give (`contract`), and one folder a kind."""
