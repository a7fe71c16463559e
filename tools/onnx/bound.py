"""ONNX files in Koine for given arrays, for the scripts that compare them with ONNX Runtime."""
import koine


def runner(path, given, needed, context=None):
    """A function without arguments that computes the file's outputs, in order, for the arrays by name.

    The graph is built only for their shapes, so that nothing is computed in advance. If it depends on numbers, such as axes or a sampling
    rate, it is built for those of the arrays that `needed` selects."""
    model = koine.Model(path, context=context)
    shapes = {name: (array.dtype, array.shape) for name, array in given.items()}
    try:
        made = model._bind(shapes)
    except (koine.ArgumentError, koine.ShapeError, koine.UnsupportedError):
        made = model._bind({name: array if needed(array) else shapes[name] for name, array in given.items()})
    states = koine.States(model.context)
    session = koine.Session(made.outputs, model.context, states=states)
    made.load(None, states)
    names = dict(zip(made.input_names, (value.name for value in made.inputs)))
    inputs = {names[name]: array for name, array in given.items() if name in names}
    return lambda: session.run(inputs)
