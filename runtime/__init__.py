"""From `.mnn` to answers: the engine, its Python face, verification and benchmark."""
