"""The tag of the wheel: any Python 3, but the machine and the C library that the libraries in it were built for."""

import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Platform(Distribution):
    """Has files of a machine, so that pip puts them where such files go."""

    def has_ext_modules(self) -> bool:
        return True


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple:
        return "py3", "none", os.environ["LIBPREFIX_WHEEL_PLATFORM"]


setup(distclass=Platform, cmdclass={"bdist_wheel": Wheel})
