[inputs: ["mix.exs", "lib/**/*.ex", "test/**/*.exs"], line_length: 110]
